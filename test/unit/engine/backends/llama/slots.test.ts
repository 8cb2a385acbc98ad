import { expect, test } from "vitest";
import { BatchShares, type PromptReading, tokenCost } from "../../../../../engine/backends/llama/slots/batch-shares.ts";
import { Steps } from "../../../../../engine/backends/llama/slots/steps.ts";
import { type Gate, gate } from "../../../../support/gate.ts";

const BATCH = 256;

/** Creates shares beside `answers` running answers of different tenants, for a model with a constant token cost. */
function shares(answers: number): BatchShares {
  const made = new BatchShares(BATCH, () => 1);
  // Measurements have shown that whole batches take no time.
  const first = made.begin("first", 10_000);
  readOn(first, 4, 0);
  first.end();
  first.close();
  for (let index = 0; index < answers; index += 1) made.begin(`answer ${index}`, 1).end();
  return made;
}

/** Evaluates a chunk of `tokens` tokens, which takes `ms` milliseconds. */
function readPiece(reading: PromptReading, tokens: number, ms: number): void {
  reading.begins(tokens, 0);
  reading.evaluated(ms);
}

/** Evaluates `pieces` chunks at `msPerToken`; returns the size of the next one. */
function readOn(reading: PromptReading, pieces: number, msPerToken: number): number {
  for (let piece = 0; piece < pieces; piece += 1) {
    const tokens = reading.pieceTokens();
    readPiece(reading, tokens, tokens * msPerToken);
  }
  return reading.pieceTokens();
}

test("a lone prompt gets at least 64 tokens per step at any speed, fewer behind a long context", () => {
  expect(readOn(shares(0).begin("a", 10_000), 32, 50)).toBe(64);
  const deep = new BatchShares(BATCH, tokenCost(256));
  expect(readOn(deep.begin("a", 10_000, 1_536), 32, 50)).toBeLessThanOrEqual(64 / 3);
});

test("a tenant with many prompts leaves half of a step to the one prompt of another", () => {
  const both = shares(7);
  const flood = Array.from({ length: 4 }, () => both.begin("flood", 1000));
  const one = both.begin("other", 1000);
  expect(one.pieceTokens()).toBe(BATCH / 2);
  expect(flood.map((reading) => reading.pieceTokens())).toEqual([32, 32, 32, 32]);
  for (const reading of flood) reading.end();
  flood[0]?.end();
  expect(one.pieceTokens()).toBe(BATCH);
});

test("tokens behind long contexts cost more, and leave a new prompt's share unchanged", () => {
  const costOf = tokenCost(256);
  const both = new BatchShares(BATCH, costOf);
  const long = both.begin("a", 1_000_000, 7_680);
  const answer = both.begin("answer", 1);
  answer.end();
  // A millisecond per unit of token cost: 40 of them are a step.
  for (let piece = 0; piece < 32; piece += 1) {
    const tokens = long.pieceTokens();
    readPiece(long, tokens, tokens * costOf(7_680));
  }
  expect(long.pieceTokens()).toBe(4);
  answer.close();
  const newcomer = both.begin("b", 1_000);
  long.end();
  expect(newcomer.pieceTokens()).toBeGreaterThan(32);
});

test("the short rest of a prompt is read in one chunk beside any others", () => {
  const both = shares(7);
  for (let each = 0; each < 16; each += 1) both.begin("flood", 1_000);
  expect(both.begin("b", 32).pieceTokens()).toBe(32);
  expect(both.begin("c", 1_000, 970).pieceTokens()).toBe(30);
  expect(both.begin("d", 1_000).pieceTokens()).toBe(BATCH / 4);
});

test("the end of a prompt does not measure chunks evaluated after it in the same round", () => {
  const both = shares(1);
  const long = both.begin("a", 100_000);
  const sizes = Array.from({ length: 32 }, () => {
    const tokens = long.pieceTokens();
    const newcomer = both.begin("b", 20);
    newcomer.begins(20, 0);
    long.begins(tokens, 0);
    newcomer.evaluated(20 * 0.4);
    newcomer.close();
    long.evaluated((20 + tokens) * 0.4);
    return tokens;
  });
  // 100 tokens take the target time.
  expect(Math.max(...sizes.slice(16))).toBeLessThan(110);
  expect(Math.min(...sizes.slice(16))).toBeGreaterThan(60);
});

const turns = async (count = 3) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Steps that record their start, and end when the test releases them. */
function heldSteps() {
  const steps = new Steps();
  const begun: string[] = [];
  const held = new Map<string, Gate>();
  /** Requests a step at the place that its name begins with. */
  const ask = (name: string) => {
    const end = gate();
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
