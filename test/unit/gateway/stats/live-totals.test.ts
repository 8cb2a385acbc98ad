import { expect, test } from "vitest";
import { RecentTimes } from "../../../../gateway/stats/live-totals.ts";

const HALF_AND_MOST = [0.5, 0.95];

test("without samples there are no percentiles", () => {
  expect(new RecentTimes(60_000).percentiles(HALF_AND_MOST, 0)).toEqual([undefined, undefined]);
});

test("percentiles are samples, by nearest rank, in whatever order they came", () => {
  const times = new RecentTimes(60_000);
  for (let i = 100; i >= 1; i -= 1) times.add(i, 0);
  expect(times.percentiles([0.01, 0.5, 0.95, 1], 0)).toEqual([1, 50, 95, 100]);
});

test("one sample is every percentile", () => {
  const times = new RecentTimes(60_000);
  times.add(7, 0);
  expect(times.percentiles([0.01, ...HALF_AND_MOST, 1], 0)).toEqual([7, 7, 7, 7]);
});

test("what is older than the span does not count", () => {
  const times = new RecentTimes(60_000);
  times.add(1_000, 0);
  times.add(10, 30_000);
  expect(times.percentiles([0.5, 1], 60_000)).toEqual([10, 1_000]);
  expect(times.percentiles([0.5, 1], 60_001)).toEqual([10, 10]);
  expect(times.percentiles([0.5, 1], 90_001)).toEqual([undefined, undefined]);
});

test("with too many samples the newest count", () => {
  const times = new RecentTimes(60_000);
  for (let i = 1; i <= 3_000; i += 1) times.add(i, i);
  expect(times.percentiles([0.0001, 1], 3_000)).toEqual([3_000 - 1_023, 3_000]);
});
