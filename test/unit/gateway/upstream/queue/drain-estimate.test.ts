import { expect, test } from "vitest";
import { DrainEstimate } from "../../../../../gateway/upstream/queue/drain-estimate.ts";

/** Somebody was served at each of these moments. */
function servedAt(...momentsMs: readonly number[]): DrainEstimate {
  const drain = new DrainEstimate();
  for (const nowMs of momentsMs) drain.served(nowMs);
  return drain;
}

test("nothing is known before two were served in a row", () => {
  expect(servedAt().waitMs(10, 0)).toBeUndefined();
  expect(servedAt(0).waitMs(10, 0)).toBeUndefined();
  const drain = servedAt(0);
  drain.empty();
  drain.served(60_000);
  expect(drain.waitMs(10, 60_000)).toBeUndefined();
});

test("as many intervals as wait, and one more", () => {
  expect(servedAt(0, 200, 400, 600).waitMs(9, 600)).toBeCloseTo(2_000, 6);
});

test("several that are served at a time make it quicker", () => {
  const moments = Array.from({ length: 60 }, (_, index) => Math.floor(index / 4) * 1_000);
  const estimate = servedAt(...moments).waitMs(0, 14_000) ?? Number.NaN;
  expect(estimate).toBeGreaterThan(150);
  expect(estimate).toBeLessThan(350);
});

test("what has come to a stop takes as long as it stands", () => {
  const drain = servedAt(0, 100, 200);
  expect(drain.waitMs(1, 5_200)).toBe(10_000);
});

test("what was slow and is quick now is forgotten soon", () => {
  const moments = [0, 10_000, ...Array.from({ length: 40 }, (_, index) => 10_100 + index * 100)];
  expect(servedAt(...moments).waitMs(0, 14_000)).toBeLessThan(200);
});
