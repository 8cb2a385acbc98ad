import type { LlamaContext, LlamaContextSequence, LlamaModel, Token } from "node-llama-cpp";
import { expect, test } from "vitest";
import { BatchDecoder, samplerConfig } from "../../../../../engine/backends/llama/runtime/batch-decoder.ts";
import { acceleratorFault, fitting } from "../../../../../engine/backends/llama/runtime/llama-runtime.ts";
import { gapsOf, moveOf, passesOf } from "../../../../../engine/backends/llama/runtime/passes.ts";

const tokensOf = (...ids: number[]) => ids as Token[];

/** llama.cpp's batch interface: records its calls, and computes a batch when the test releases it. */
function scriptedContext(batchSize = 4) {
  const seen: string[] = [];
  const computed: (() => void)[] = [];
  const native = {
    initBatch: (count: number) => seen.push(`batch of ${count}`),
    addToBatch(id: number, position: number, ids: Uint32Array, sampled: Uint32Array) {
      seen.push(`${id} at ${position}: ${ids.join(" ")}`);
      return sampled.map(() => 10 * id);
    },
    setThreads: () => {},
    decodeBatch: () =>
      new Promise<void>((resolve) => {
        computed.push(resolve);
      }),
    sampleToken: () => Promise.resolve(0),
    removeTokenCellsFromSequence: (id: number, from: number) => seen.push(`${id} cut to ${from}`) > 0,
    copySequenceStateFromOtherSequence: async (to: number, from: number) => seen.push(`copy ${from} to ${to}`),
    disposeSequence() {},
  };
  const sequence = (id: number, held = 0, needsCheckpoints = false) => {
    const inside = {
      _sequenceId: id,
      _nextTokenIndex: held,
      needsCheckpoints,
      _contextTokens: [] as Token[],
      _resolveSamplerConfig: () => ({}),
      _copyStateFromOtherSequence: async () => true,
      contextSize: 1_000,
      get nextTokenIndex() {
        return inside._nextTokenIndex;
      },
    };
    return inside as unknown as LlamaContextSequence;
  };
  const context = { _ctx: native, batchSize } as unknown as LlamaContext;
  const compute = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    computed.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { seen, context, sequence, compute };
}

test("ends of prompts get batches before all others, with their samples", async () => {
  const { seen, context, sequence, compute } = scriptedContext();
  const all = [0, 1, 2, 3, 4, 5].map((id) => sequence(id));
  const at = (id: number) => all[id] ?? sequence(id);
  const decoder = new BatchDecoder(context, all, false);
  const samples: string[] = [];
  const sample = (id: number, ...ids: number[]) =>
    decoder.sample(at(id), tokensOf(...ids), async () => `first of ${id}`).then((first) => samples.push(first));
  const asked = [
    decoder.read(at(1), tokensOf(1, 2)),
    sample(2, 3, 4, 5),
    sample(3, 6),
    sample(4, 7, 8),
    decoder.read(at(5), tokensOf(9)),
  ];
  await compute();
  await compute();
  expect(samples).toEqual(["first of 2", "first of 4"]);
  await compute();
  await Promise.all(asked);
  expect(seen).toEqual([
    ...["batch of 4", "2 at 0: 3 4 5", "4 at 0: 7"],
    ...["batch of 1", "4 at 1: 8"],
    ...["batch of 4", "1 at 0: 1 2", "3 at 0: 6", "5 at 0: 9"],
  ]);
});

/** Rows by their numbers, of one token where no more is said. */
const rowsOf = (...rows: (number | readonly [id: number, tokens: number])[]) =>
  rows.map((row) => (typeof row === "number" ? { id: row, tokens: 1 } : { id: row[0], tokens: row[1] }));

test.each([
  [1, rowsOf(0, 1, 2, 3)],
  [2, rowsOf(0, 1, 3)],
  [4, rowsOf(0, 2, 4, 6)],
  [2, rowsOf(0, [1, 64], 2)],
  [3, rowsOf([0, 20], [1, 30], 2)],
  [2, rowsOf([0, 20], [5, 20])],
])("llama.cpp takes %d passes for a batch of %j", (passes, rows) => {
  expect(passesOf(rows)).toBe(passes);
});

test("gaps between the numbers of a batch are closed where they are narrow and all of them can be used", () => {
  expect(gapsOf([0, 2, 5, 9], 2, () => true)).toEqual([1, 3, 4]);
  expect(gapsOf([0, 2, 5, 9], 2, (id) => id !== 4)).toEqual([1]);
});

test.each([
  ["nothing where all are neighbours", [3, 4, 5], [], undefined],
  ["the outer one into the gap", [0, 1, 3], [2], { from: 3, to: 2 }],
  ["into an empty number rather than a used one", [0, 3, 4, 8], [2], { from: 0, to: 2 }],
  ["the one farthest from the others", [0, 5, 6, 8], [], { from: 0, to: 7 }],
] as const)("a move takes %s", (_what, ids, empty: readonly number[], move) => {
  expect(moveOf(ids, 9, (id) => empty.includes(id))).toEqual(move);
});

/** Decodes one token of each of these sequences in one step. */
async function decodeStep(
  { seen, compute }: Pick<ReturnType<typeof scriptedContext>, "seen" | "compute">,
  decoder: BatchDecoder,
  sequences: readonly LlamaContextSequence[],
): Promise<readonly string[]> {
  seen.length = 0;
  const step = Promise.all(sequences.map((each) => decoder.sample(each, tokensOf(7), async () => 0)));
  await compute();
  await step;
  return seen.slice();
}

test("a throwaway token closes a gap and is cut off again, unless its cache is too long, full or cannot be cut", async () => {
  const script = scriptedContext(32);
  const all = [5, 700, 6, 40, 8, 999, 9].map((held, id) => script.sequence(id, held));
  const decoder = new BatchDecoder(script.context, all, false);
  const step = await decodeStep(
    script,
    decoder,
    [0, 2, 4, 6].flatMap((id) => all[id] ?? []),
  );
  expect(step).toEqual([
    ...["batch of 5", "0 at 5: 7", "2 at 6: 7", "3 at 40: 0", "4 at 8: 7", "6 at 9: 7", "3 cut to 40"],
  ]);
  expect([decoder.passes, decoder.passesForGaps]).toEqual([3, 2]);
  const bound = [0, 1, 2].map((id) => script.sequence(id, 5, true));
  const other = new BatchDecoder(script.context, bound, true);
  expect(
    await decodeStep(
      script,
      other,
      [0, 2].flatMap((id) => bound[id] ?? []),
    ),
  ).toHaveLength(3);
  expect(other.passesForGaps).toBe(1);
});

test("caches that stay scattered are moved together, each to a number of its own", async () => {
  const script = scriptedContext(32);
  const all = [5, 900, 6, 900, 0].map((held, id) => script.sequence(id, held));
  const decoder = new BatchDecoder(script.context, all, false);
  const ran = [0, 2].flatMap((id) => all[id] ?? []);
  const steps: (readonly string[])[] = [];
  for (let step = 0; step < 20; step += 1) steps.push(await decodeStep(script, decoder, ran));
  const moved = steps.findIndex((step) => step.some((call) => call.startsWith("copy")));
  expect(moved).toBe(6);
  expect(steps[moved]).toEqual(["copy 1 to 4", "copy 0 to 1", "batch of 2", "1 at 11: 7", "2 at 12: 7"]);
  expect(decoder.passesForGaps).toBe(6);
});

test.each([
  [
    { topK: 40, topP: 0.9 },
    { topK: 40, topP: 0.9 },
  ],
  [{ topK: 0, topP: 1 }, { topP: 1 }],
  [{ topK: 100_000, topP: 1 }, { topP: 1 }],
  [
    { topK: 0, topP: 0.95 },
    { topK: 8_192, topP: 0.95 },
  ],
  [
    { topK: 100_000, topP: 0.95 },
    { topK: 8_192, topP: 0.95 },
  ],
])("of %j no more tokens are sorted than 8192", (asked, config) => {
  const sequence = { _resolveSamplerConfig: (options: object) => options } as unknown as LlamaContextSequence;
  expect(samplerConfig(sequence, asked)).toEqual(config);
});

test("a library with other internals is refused", () => {
  const context = { _ctx: { initBatch() {} }, batchSize: 1 } as unknown as LlamaContext;
  const refused = "node-llama-cpp is not the version that this engine supports.";
  expect(() => new BatchDecoder(context, [], false)).toThrow(refused);
  const { context: known, sequence } = scriptedContext();
  const other = { ...sequence(0), _contextTokens: undefined } as unknown as LlamaContextSequence;
  expect(() => new BatchDecoder(known, [other], false)).toThrow(refused);
});

test.each([
  [2_000_000, "contextTokens: 5888 or slots: 4 would fit"],
  [500_000, "contextTokens: 1024 would fit"],
  [100_000, "no window fits beside its weights"],
])("of %d bytes the settings are named that have room beside all layers", async (bytes, fits) => {
  /** A token of a cache takes 10 bytes, and the weights 100,000. */
  const estimate = ({ sequences, contextSize }: { readonly sequences: number; readonly contextSize: number }) =>
    Promise.resolve({ cpuRam: 0, gpuVram: 1_000 + 10 * sequences * contextSize });
  const fileInsights = {
    totalLayers: 7,
    estimateContextResourceRequirementsV2: estimate,
    estimateModelResourceRequirementsV2: () => Promise.resolve({ cpuRam: 0, gpuVram: 100_000 }),
  };
  const shape = { sequences: 32, contextSize: 32_768, batchSize: 256, swaFullCache: true };
  expect(await fitting({ fileInsights } as unknown as LlamaModel, shape, true, bytes)).toBe(fits);
});

const never = new AbortController().signal;

/** The behaviour of the trial process, and the reported fault. */
const ENDS: readonly (readonly [string, string, string | undefined])[] = [
  ["receives the accelerator and computes", `if (process.argv[1] !== "cuda") process.abort()`, undefined],
  [
    "llama.cpp aborts",
    `console.error("[node-llama-cpp] CUDA error: no kernel fits\\n  current device: 0\\n/cuda.cu:1: CUDA error"); process.abort()`,
    "CUDA error: no kernel fits",
  ],
  ["aborts without a message", "process.abort()", "its process ended with SIGABRT"],
  ["fails as loading the model will", `throw new Error("CUDA error: no room")`, undefined],
];

test.each(ENDS)("a trial that %s reports the fault", async (_name, program, fault) => {
  expect(await acceleratorFault("cuda", never, program)).toEqual(fault);
});

test("a trial ends with its startup, and reports no fault", async () => {
  const start = new AbortController();
  const trial = acceleratorFault("cuda", start.signal, "setInterval(() => {}, 1000)");
  start.abort();
  expect(await trial).toBeUndefined();
});
