import type { LlamaContextSequence, Token } from "node-llama-cpp";
import { expect, test } from "vitest";
import {
  PrefillTurns,
  type PromptReading,
  tokenCost,
} from "../../../../../engine/backends/llama/slots/prefill-turns.ts";
import { Slot } from "../../../../../engine/backends/llama/slots/slots.ts";
import { Steps } from "../../../../../engine/backends/llama/slots/steps.ts";
import { type Latch, latch } from "../../../../support/latch.ts";

const BATCH = 256;

/** Creates turns beside `answers` running answers of different tenants, for a model with a constant token cost. */
async function prefillTurns(answers: number): Promise<PrefillTurns> {
  const made = new PrefillTurns(BATCH, () => 1);
  // Measurements have shown that whole batches take no time.
  const first = made.begin("first", 10_000);
  await readOn(made, first, 4, 0);
  first.close();
  for (let index = 0; index < answers; index += 1) made.begin(`answer ${index}`, 1).end();
  return made;
}

/** Evaluates chunks at `msPerToken`, the batches of streams taking `lightMs` without them; returns the next one's size. */
async function readOn(
  of: PrefillTurns,
  reading: PromptReading,
  count: number,
  msPerToken: number,
  lightMs = 0,
  before = 0,
): Promise<number> {
  for (let piece = 0; piece < count; piece += 1) {
    const tokens = await reading.nextPiece();
    if (lightMs > 0) of.learn({ chunks: [], hasStreams: true, ms: lightMs });
    of.learn({ chunks: [{ before, tokens }], hasStreams: lightMs > 0, ms: lightMs + tokens * msPerToken });
    reading.evaluated(tokens);
  }
  const next = await reading.nextPiece();
  reading.evaluated(0);
  return next;
}

test("a chunk has at least 64 tokens at any speed and behind any context, alone twice as many", async () => {
  const alone = await prefillTurns(0);
  expect(await readOn(alone, alone.begin("a", 10_000), 32, 50)).toBe(128);
  const deep = new PrefillTurns(BATCH, tokenCost(256));
  expect(await readOn(deep, deep.begin("a", 10_000, 1_536), 32, 50, 0, 1_536)).toBe(128);
  deep.begin("answer", 1).end();
  expect(await readOn(deep, deep.begin("b", 10_000, 1_536), 32, 50, 0, 1_536)).toBe(64);
});

test("one prompt is read at a time: tenants take turns, and so do the prompts of one", async () => {
  const both = await prefillTurns(7);
  const prompts = [...["flood 1", "flood 2", "flood 3"], "other"].map((name) => ({
    name,
    reading: both.begin(name.split(" ")[0] ?? "", 10_000),
  }));
  const order: string[] = [];
  const pieces = new Set<number>();
  await Promise.all(
    prompts.map(async ({ name, reading }) => {
      for (let piece = 0; piece < 3; piece += 1) {
        const tokens = await reading.nextPiece();
        order.push(name);
        pieces.add(tokens);
        await turns(1);
        expect(order.at(-1)).toBe(name);
        reading.evaluated(tokens);
      }
      reading.end();
    }),
  );
  expect(order.slice(0, 6)).toEqual(["flood 1", "other", "flood 2", "other", "flood 3", "other"]);
  expect(order.slice(6)).toEqual(["flood 1", "flood 2", "flood 3", "flood 1", "flood 2", "flood 3"]);
  expect([...pieces]).toEqual([BATCH]);
});

test("a turn passes on at the end of its prompt, not at the end of another", async () => {
  const both = await prefillTurns(2);
  const [holder, second, third] = ["a", "b", "c"].map((name) => both.begin(name, 10_000));
  const granted: string[] = [];
  await holder?.nextPiece();
  const waits = [second?.nextPiece().then(() => granted.push("b")), third?.nextPiece().then(() => granted.push("c"))];
  both.begin("d", 10_000).close();
  await turns(1);
  expect(granted).toEqual([]);
  holder?.end();
  await waits[0];
  expect(granted).toEqual(["b"]);
  second?.close();
  await waits[1];
  expect(granted).toEqual(["b", "c"]);
});

test("tokens behind long contexts cost more, and leave a new prompt's share unchanged", async () => {
  const costOf = tokenCost(256);
  const both = new PrefillTurns(BATCH, costOf);
  const long = both.begin("a", 1_000_000, 7_680);
  const answer = both.begin("answer", 1);
  answer.end();
  // A fifth of a millisecond per unit of token cost: 200 of them are a step.
  expect(await readOn(both, long, 32, 0.2 * costOf(7_680), 0, 7_680)).toBe(64);
  answer.close();
  const newcomer = both.begin("b", 1_000);
  long.end();
  expect(await newcomer.nextPiece()).toBeGreaterThan(128);
});

test("the short rest of a prompt is read in one chunk, without a turn", async () => {
  const both = await prefillTurns(7);
  const reader = both.begin("flood", 1_000);
  expect(await reader.nextPiece()).toBe(BATCH);
  expect(await both.begin("b", 32).nextPiece()).toBe(32);
  expect(await both.begin("c", 1_000, 970).nextPiece()).toBe(30);
});

test.each([
  ["fast, its streams slow", 0.12, 38, BATCH],
  ["slow, its streams fast", 0.5, 4, 80],
  ["as slow as its streams", 0.4, 40, 100],
])(
  "the price of a prompt is what its tokens add to the batch of a node that is %s",
  async (_what, ms, lightMs, tokens) => {
    const both = await prefillTurns(15);
    const piece = await readOn(both, both.begin("a", 100_000), 32, ms, lightMs);
    expect(piece).toBeGreaterThanOrEqual(0.9 * tokens);
    expect(piece).toBeLessThanOrEqual(1.1 * tokens);
  },
);

const turns = async (count = 3) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Steps that record their start, and end when the test releases them. */
function heldSteps() {
  const steps = new Steps();
  const begun: string[] = [];
  const held = new Map<string, Latch>();
  /** Requests a step at the place that its name begins with. */
  const ask = (name: string) => {
    const end = latch();
    held.set(name, end);
    return steps.run(Number(name[0]), () => {
      begun.push(name);
      return end.passed;
    });
  };
  return { steps, begun, ask, end: (name: string) => held.get(name)?.open() };
}

test("a change during a round waits for its end, and the next round waits for the change", async () => {
  const { steps, begun, ask, end } = heldSteps();
  const first = ask("0a");
  await turns();
  const change = steps.change(async () => void begun.push("change"));
  const next = ask("1b");
  await turns();
  expect({ begun, inFlight: steps.inFlight }).toEqual({ begun: ["0a"], inFlight: 3 });
  end("0a");
  await Promise.all([first, change]);
  await turns();
  expect(begun).toEqual(["0a", "change", "1b"]);
  end("1b");
  await next;
});

test("steps start together once all steps of the previous round have ended", async () => {
  const { begun, ask, end } = heldSteps();
  const first = ["2a", "0a", "1a"].map((name) => ask(name));
  await turns();
  expect(begun).toEqual(["2a", "0a", "1a"]);
  end("1a");
  await first[2];
  const second = ["1b", "3b"].map((name) => ask(name));
  end("2a");
  await first[0];
  second.push(ask("2b"));
  await turns();
  expect(begun).toHaveLength(3);
  end("0a");
  await first[1];
  second.push(ask("0b"));
  await turns();
  expect(begun.slice(3)).toEqual(["1b", "3b", "2b", "0b"]);
  for (const name of ["0b", "1b", "2b", "3b"]) end(name);
  await Promise.all(second);
});

test("a sequence without further steps is not waited for, and a failed step ends like any other", async () => {
  const { steps, begun, ask, end } = heldSteps();
  const failed = steps.run(1, () => Promise.reject(new Error("lost")));
  const made = ask("0a");
  await expect(failed).rejects.toThrow("lost");
  end("0a");
  await made;
  const next = ask("2b");
  await turns();
  expect(begun).toEqual(["0a", "2b"]);
  end("2b");
  await next;
  expect({ done: steps.done, inFlight: steps.inFlight }).toEqual({ done: 3, inFlight: 0 });
});

/** A cache of the library with the tokens 1 to 4, of which `left` remain when it is cut. */
function sequenceThatKeeps(left: readonly number[]) {
  let held: readonly number[] = [1, 2, 3, 4];
  return {
    needsCheckpoints: false,
    get contextTokens() {
      return [...held] as Token[];
    },
    get nextTokenIndex() {
      return held.length;
    },
    async adaptStateToTokens() {
      held = left;
    },
    async clearHistory() {
      held = [];
    },
  } satisfies Partial<LlamaContextSequence>;
}

test.each([
  { left: [1, 2], tokens: [1, 2], what: "is used as far as it is the prompt's" },
  { left: [1], tokens: [1], what: "may be shorter than it had to be" },
  { left: [1, 9], tokens: [], what: "is emptied if it has another token" },
  { left: [1, 2, 3], tokens: [], what: "is emptied if it is longer than it had to be" },
])("a cache that the library has cut $what", async ({ left, tokens }) => {
  const sequence = sequenceThatKeeps(left);
  const slot = new Slot(sequence as unknown as LlamaContextSequence, 0); // all that the slot reads of it
  slot.release(0, 0);
  expect(await slot.adapt({ prompt: [1, 2, 5, 6] as Token[], isolation: "" })).toBe(tokens.length);
  expect(sequence.contextTokens).toEqual(tokens);
});
