import { expect, test } from "vitest";
import { averageLoad, type LoadAverage } from "../../../../../gateway/upstream/endpoint/load-average.ts";

test("begins with the first measurement", () => {
  expect(averageLoad(undefined, 7, 1_000)).toEqual({ value: 7, atMs: 1_000 });
});

test("follows a new load within minutes, and ignores a moment", () => {
  const steady: LoadAverage = { value: 10, atMs: 0 };
  expect(averageLoad(steady, 40, 1_000).value).toBeLessThan(10.5);
  expect(averageLoad(steady, 40, 600_000).value).toBeGreaterThan(39);
});

test("does not depend on the number of measurements", () => {
  let often: LoadAverage = { value: 0, atMs: 0 };
  for (let nowMs = 1_000; nowMs <= 60_000; nowMs += 1_000) often = averageLoad(often, 5, nowMs);
  expect(often.value).toBeCloseTo(averageLoad({ value: 0, atMs: 0 }, 5, 60_000).value, 9);
});

test("does not move when the clock stands or goes back", () => {
  expect(averageLoad({ value: 3, atMs: 500 }, 100, 500).value).toBe(3);
  expect(averageLoad({ value: 3, atMs: 500 }, 100, 400).value).toBe(3);
});
