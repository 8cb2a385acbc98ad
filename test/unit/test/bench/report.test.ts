import { expect, test } from "vitest";
import { median, medianOf, medianRatio, percentile } from "../../../bench/report.ts";

test("ratios and differences are computed within a round before the median", () => {
  const rounds = [
    [10, 20],
    [100, 400],
    [20, 60],
  ].map(([net = 0, gateway = 0]) => new Map(Object.entries({ net, gateway })));
  const itself = (value: number) => value;
  expect(medianRatio(rounds, "gateway", "net", itself)).toBe(3);
  expect(medianOf(rounds, "gateway", itself)).toBe(60);
  expect(medianRatio(rounds, "gateway", "nginx", itself)).toBeNaN();
});

test("a percentile is the nearest value from above", () => {
  const values = [100, 9, 8, 7, 6, 5, 4, 3, 2, 1];
  expect([0, 0.5, 0.51, 0.99, 1].map((p) => percentile(values, p))).toEqual([1, 5, 6, 100, 100]);
  expect(percentile([], 0.5)).toBeNaN();
});

test("the median of an even number of values is midway between the two middle ones", () => {
  expect([median([9, 1, 5]), median([4, 1, 2, 10]), median([])]).toEqual([5, 3, Number.NaN]);
});
