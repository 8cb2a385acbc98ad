import { expect, test } from "vitest";
import { formatTable, median, medianOf, medianRatio, parseProcessStat, percentile } from "../../../bench/report.ts";

test("words are left-aligned, numbers right-aligned and rounded by column, a missing measurement is a dash", () => {
  const columns = [
    { key: "name", title: "name" },
    { key: "ratio", title: "to net", digits: 2 },
    { key: "count", title: "n", digits: 0 },
  ];
  const rows = [
    { name: "a long name", ratio: 1.005, count: 12_345.6 },
    { name: "short", ratio: Number.NaN },
  ];
  expect(formatTable(columns, rows).split("\n")).toEqual([
    "name         to net      n",
    "-----------  ------  -----",
    "a long name    1.00  12346",
    "short             -      -",
  ]);
});

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

test.each(["node", "my (odd) S 1 2"])("user and system time are found behind a program name: %s", (program) => {
  const rest = "S 1 42 42 0 -1 4194560 100 0 0 0 350 25 7 8 20 0 11 0 1000 1 2";
  expect(parseProcessStat(`42 (${program}) ${rest}`)).toBe(3_750);
});

test.each([
  [0, 1],
  [0.5, 5],
  [0.51, 6],
  [0.99, 100],
  [1, 100],
])("percentile %d is the nearest value from above", (p, expected) => {
  expect(percentile([100, 9, 8, 7, 6, 5, 4, 3, 2, 1], p)).toBe(expected);
  expect(percentile([], p)).toBeNaN();
});

test("the median of an even number of values is midway between the two middle ones", () => {
  expect([median([9, 1, 5]), median([4, 1, 2, 10]), median([])]).toEqual([5, 3, Number.NaN]);
});
