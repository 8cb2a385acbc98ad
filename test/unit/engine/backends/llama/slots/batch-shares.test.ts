import { expect, test } from "vitest";
import { BatchShares, type PromptReading } from "../../../../../../engine/backends/llama/slots/batch-shares.ts";
import { tokenCost } from "../../../../../../engine/backends/llama/slots/token-cost.ts";

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

test("a lone prompt gets whole batches if they take at most twice the target time", () => {
  expect(readOn(shares(0).begin("a", 10_000), 16, 0.3)).toBe(BATCH);
  const tokens = readOn(shares(0).begin("a", 10_000), 16, 0.6);
  expect(tokens).toBeGreaterThan(100);
  expect(tokens).toBeLessThan(160);
});

test("a lone prompt gets at least 64 tokens per step at any speed, fewer behind a long context", () => {
  expect(readOn(shares(0).begin("a", 10_000), 32, 50)).toBe(64);
  const deep = new BatchShares(BATCH, tokenCost(256));
  expect(readOn(deep.begin("a", 10_000, 1_536), 32, 50)).toBeLessThanOrEqual(64 / 3);
});

test("beside other requests a step is sized by the target time", () => {
  const tokens = readOn(shares(1).begin("a", 10_000), 16, 0.4);
  expect(tokens).toBeGreaterThan(80);
  expect(tokens).toBeLessThan(120);
});

test("measurements of a lone prompt apply to the first chunk beside it", () => {
  const both = shares(0);
  const first = both.begin("a", 10_000);
  readOn(first, 16, 1);
  const other = both.begin("b", 1);
  other.end();
  const beside = first.pieceTokens();
  expect(beside).toBeLessThan(BATCH / 4);
  other.close();
  other.close();
  expect(first.pieceTokens()).toBeCloseTo(2 * beside, -1);
});

test("a slow engine still advances prompts, and returns to whole batches once it is fast", () => {
  const reading = shares(1).begin("a", 100_000);
  expect(readOn(reading, 32, 50)).toBe(16);
  expect(readOn(reading, 40, 0.01)).toBe(BATCH);
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

test("the time of several prompts' chunks is not attributed to one of them", () => {
  const both = shares(7);
  const readings = Array.from({ length: 8 }, (_, index) => both.begin(`tenant ${index}`, 10_000));
  for (let step = 0; step < 16; step += 1) {
    const sizes = readings.map((reading) => reading.pieceTokens());
    const ms = sizes.reduce((sum, size) => sum + size, 0) * 0.1;
    for (const [index, reading] of readings.entries()) reading.begins(sizes[index] ?? 0, 0);
    for (const reading of readings) reading.evaluated(ms);
  }
  expect(readings[0]?.pieceTokens()).toBe(BATCH / 8);
});

test("the remaining tokens of all prompts are reported, without those of an abandoned prompt", () => {
  const both = shares(1);
  const one = both.begin("a", 300);
  const other = both.begin("b", 1000);
  expect(both.unread).toBe(1300);
  readPiece(one, one.pieceTokens(), 1);
  expect(both.unread).toBe(1300 - BATCH / 2);
  other.end();
  other.end();
  expect(both.unread).toBe(300 - BATCH / 2);
  one.end();
  expect(both.unread).toBe(0);
});

test("tokens that the cache turns out to lack are also evaluated", () => {
  const one = shares(0);
  const reading = one.begin("a", 100, 99);
  expect(one.unread).toBe(1);
  reading.expect(0);
  expect(one.unread).toBe(100);
  expect(reading.pieceTokens()).toBe(100);
  reading.close();
  expect(one.unread).toBe(0);
});

test("the time of a much smaller step does not change the step size", () => {
  const both = shares(1);
  const long = both.begin("a", 10_000);
  const tokens = readOn(long, 16, 0.4);
  readPiece(long, tokens, tokens * 0.4);
  for (let newcomer = 0; newcomer < 16; newcomer += 1) {
    const one = both.begin("b", 8);
    readOn(one, 1, 10);
    one.close();
  }
  expect(long.pieceTokens()).toBeGreaterThan(80);
});

test("chunks that ended before a chunk began do not count for it", () => {
  const both = shares(0);
  const heavy = both.begin("heavy", 10_000);
  const light = both.begin("light", 10_000);
  expect([heavy.pieceTokens(), light.pieceTokens()]).toEqual([BATCH / 2, BATCH / 2]);
  for (let piece = 0; piece < 16; piece += 1) readPiece(light, BATCH / 2, BATCH / 2);
  heavy.begins(BATCH / 2, 10_000);
  heavy.evaluated(10_000 + BATCH / 2);
  light.end();
  expect(heavy.pieceTokens()).toBeLessThan(60);
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

test("the first long prompt beside others gets small steps until they prove fast", () => {
  const both = new BatchShares(BATCH, () => 1);
  both.begin("answer", 1).end();
  const reading = both.begin("a", 10_000);
  expect(reading.pieceTokens()).toBe(64);
  expect(readOn(reading, 24, 0.01)).toBe(BATCH);
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
