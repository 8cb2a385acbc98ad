import { expect, test } from "vitest";
import { BatchShares, type PromptReading } from "../../../../../../engine/backends/llama/slots/batch-shares.ts";

const BATCH = 256;

/** Makes shares beside so many other requests. */
function shares(others: number): BatchShares {
  return new BatchShares({ batchTokens: BATCH, hasCompany: () => others > 0 });
}

/** Evaluates so many pieces at a speed of `msPerToken`; returns the size of the next one. */
function readOn(reading: PromptReading, pieces: number, msPerToken: number): number {
  for (let piece = 0; piece < pieces; piece += 1) {
    const tokens = reading.pieceTokens();
    reading.evaluated(tokens, tokens * msPerToken);
  }
  return reading.pieceTokens();
}

test("a prompt that is alone gets whole batches, however long they take", () => {
  expect(readOn(shares(0).begin("a", 10_000), 8, 10)).toBe(BATCH);
});

test("beside other requests a step takes as many tokens as fit the time that others wait", () => {
  const tokens = readOn(shares(1).begin("a", 10_000), 16, 0.4);
  expect(tokens).toBeGreaterThan(80);
  expect(tokens).toBeLessThan(120);
});

test("what is learned while a prompt is alone holds for the first one beside it", () => {
  let others = 0;
  const both = new BatchShares({ batchTokens: BATCH, hasCompany: () => others > 0 });
  const first = both.begin("a", 10_000);
  readOn(first, 16, 1);
  others = 1;
  expect(first.pieceTokens()).toBeLessThan(BATCH / 2);
});

test("a slow engine still gets on with prompts, and one that has become quick reads whole batches again", () => {
  const reading = shares(1).begin("a", 10_000);
  expect(readOn(reading, 32, 50)).toBe(32);
  expect(readOn(reading, 64, 0.01)).toBe(BATCH);
});

test("a tenant's flood of prompts leaves half of a step to the one prompt of another", () => {
  const both = shares(7);
  const flood = Array.from({ length: 4 }, () => both.begin("flood", 1000));
  const one = both.begin("other", 1000);
  expect(one.pieceTokens()).toBe(BATCH / 2);
  expect(flood.map((reading) => reading.pieceTokens())).toEqual([32, 32, 32, 32]);
  for (const reading of flood) reading.end();
  flood[0]?.end();
  expect(one.pieceTokens()).toBe(BATCH);
});

test("what the pieces of all prompts took together is not taken for what one of them takes", () => {
  const both = shares(7);
  const readings = Array.from({ length: 8 }, (_, index) => both.begin(`tenant ${index}`, 10_000));
  for (let step = 0; step < 16; step += 1) {
    const sizes = readings.map((reading) => reading.pieceTokens());
    const ms = sizes.reduce((sum, size) => sum + size, 0) * 0.1;
    for (const [index, reading] of readings.entries()) reading.evaluated(sizes[index] ?? 0, ms);
  }
  expect(readings[0]?.pieceTokens()).toBe(BATCH / 8);
});

test("what is left of all prompts is told, and forgotten with a prompt that is given up", () => {
  const both = shares(1);
  const one = both.begin("a", 300);
  const other = both.begin("b", 1000);
  expect(both.unread).toBe(1300);
  one.evaluated(one.pieceTokens(), 1);
  expect(both.unread).toBe(1300 - BATCH / 2);
  other.end();
  other.end();
  expect(both.unread).toBe(300 - BATCH / 2);
  one.end();
  expect(both.unread).toBe(0);
});
