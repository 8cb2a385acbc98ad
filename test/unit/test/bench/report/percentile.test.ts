import { describe, expect, test } from "vitest";
import { median, percentile } from "../../../../bench/report.ts";

describe("percentile", () => {
  test.each([
    { p: 0, expected: 1 },
    { p: 0.5, expected: 5 },
    { p: 0.51, expected: 6 },
    { p: 0.99, expected: 10 },
    { p: 1, expected: 10 },
  ])("returns the nearest value from above at $p", ({ p, expected }) => {
    expect(percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], p)).toBe(expected);
  });

  test("sorts numerically", () => {
    expect(percentile([100, 20, 3], 1)).toBe(100);
  });

  test("is NaN without values", () => {
    expect(percentile([], 0.5)).toBeNaN();
  });
});

describe("median", () => {
  test.each([
    { name: "the middle of an odd number of values", values: [9, 1, 5], expected: 5 },
    { name: "midway between the two middle ones of an even number", values: [4, 1, 2, 10], expected: 3 },
    { name: "the only value", values: [7], expected: 7 },
    { name: "NaN without values", values: [], expected: Number.NaN },
  ])("is $name", ({ values, expected }) => {
    expect(median(values)).toBe(expected);
  });

  test("keeps the order of the values", () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });
});
