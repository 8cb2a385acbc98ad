import { describe, expect, test } from "vitest";
import { byFailurePercentage, bySuccessRate } from "../../../../../gateway/upstream/outlier/outlier-rates.ts";

const counts = (...given: readonly (readonly [successes: number, failures: number])[]) =>
  given.map(([successes, failures], index) => ({ address: `e${index}`, successes, failures }));

describe("by failure percentage", () => {
  const settings = { thresholdPercent: 85, minHosts: 1, requestVolume: 10 };

  test.each([
    ["at the threshold", counts([15, 85]), ["e0"]],
    ["below it", counts([16, 84]), []],
    ["with too few calls to judge", counts([0, 9]), []],
    ["each by itself", counts([0, 10], [10, 0], [1, 9]), ["e0", "e2"]],
    ["without any call", counts([0, 0]), []],
  ])("%s", (_, given, expected) => {
    expect(byFailurePercentage(given, settings)).toEqual(expected);
  });

  test("nothing is found with too few endpoints that can be judged", () => {
    expect(byFailurePercentage(counts([0, 10], [0, 9]), { ...settings, minHosts: 2 })).toEqual([]);
  });
});

describe("by success rate", () => {
  const settings = { minHosts: 5, requestVolume: 20, stdevFactor: 1.9 };
  const good = [20, 0] as const;

  test("finds the one that does worse than the rest", () => {
    // Mean 80 %, standard deviation 40: below 4 % is an outlier.
    expect(bySuccessRate(counts(good, good, good, good, [0, 20]), settings)).toEqual(["e4"]);
  });

  test("finds nobody where all do equally badly", () => {
    expect(bySuccessRate(counts([2, 18], [2, 18], [2, 18], [2, 18], [2, 18]), settings)).toEqual([]);
  });

  test("is off below five endpoints with enough calls", () => {
    expect(bySuccessRate(counts(good, good, good, [0, 20]), settings)).toEqual([]);
    expect(bySuccessRate(counts(good, good, good, [0, 20], [19, 0]), settings)).toEqual([]);
  });
});
