import type { LlamaContext, LlamaContextSequence, Token } from "node-llama-cpp";
import { expect, test } from "vitest";
import { BatchDecoder } from "../../../../../engine/backends/llama/runtime/batch-decoder.ts";
import { acceleratorFault } from "../../../../../engine/backends/llama/runtime/llama-runtime.ts";

const BATCH_TOKENS = 4;

const tokensOf = (...ids: number[]) => ids as Token[];

/** llama.cpp's batch interface: records its calls, and computes a batch when the test releases it. */
function scriptedContext() {
  const seen: string[] = [];
  const computed: (() => void)[] = [];
  const native = {
    initBatch: (count: number) => seen.push(`batch of ${count}`),
    addToBatch(id: number, position: number, ids: Uint32Array, sampled: Uint32Array) {
      seen.push(`${id} at ${position}: ${ids.join(" ")}`);
      return sampled.map(() => 10 * id);
    },
    decodeBatch: () =>
      new Promise<void>((resolve) => {
        computed.push(resolve);
      }),
    sampleToken: () => Promise.resolve(0),
  };
  const sequence = (id: number) => {
    const inside = {
      _sequenceId: id,
      _nextTokenIndex: 0,
      _contextTokens: [] as Token[],
      _resolveSamplerConfig: () => ({}),
      contextSize: 100,
      get nextTokenIndex() {
        return inside._nextTokenIndex;
      },
    };
    return inside as unknown as LlamaContextSequence;
  };
  const context = { _ctx: native, batchSize: BATCH_TOKENS } as unknown as LlamaContext;
  const compute = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    computed.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { seen, context, sequence, compute };
}

test("ends of prompts get batches before all others, with their samples", async () => {
  const { seen, context, sequence, compute } = scriptedContext();
  const decoder = new BatchDecoder(context);
  const told: string[] = [];
  const sample = (id: number, ...ids: number[]) =>
    decoder.sample(sequence(id), tokensOf(...ids), async () => `first of ${id}`).then((first) => told.push(first));
  const asked = [
    decoder.read(sequence(1), tokensOf(1, 2)),
    sample(2, 3, 4, 5),
    sample(3, 6),
    sample(4, 7, 8),
    decoder.read(sequence(5), tokensOf(9)),
  ];
  await compute();
  await compute();
  expect(told).toEqual(["first of 2", "first of 4"]);
  await compute();
  await Promise.all(asked);
  expect(seen).toEqual([
    ...["batch of 4", "2 at 0: 3 4 5", "4 at 0: 7"],
    ...["batch of 1", "4 at 1: 8"],
    ...["batch of 4", "1 at 0: 1 2", "3 at 0: 6", "5 at 0: 9"],
  ]);
});

test("a library with other internals is refused", () => {
  const context = { _ctx: { initBatch() {} }, batchSize: 1 } as unknown as LlamaContext;
  const refused = "node-llama-cpp is not the version that this engine supports.";
  expect(() => new BatchDecoder(context)).toThrow(refused);
  const { context: known, sequence } = scriptedContext();
  const other = { ...sequence(0), contextSize: 100, nextTokenIndex: 0, _contextTokens: undefined };
  return expect(new BatchDecoder(known).read(other as unknown as LlamaContextSequence, tokensOf(1))).rejects.toThrow(
    refused,
  );
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
