import { expect, test } from "vitest";
import { formatTable } from "../../../../bench/report.ts";

const COLUMNS = [
  { key: "name", title: "name" },
  { key: "ratio", title: "to net", digits: 2 },
  { key: "count", title: "n", digits: 0 },
];

test("words are left-aligned, numbers right-aligned and rounded by column", () => {
  const rows = [
    { name: "a long name", ratio: 1.005, count: 12_345.6 },
    { name: "short", ratio: 12.3, count: 7 },
  ];
  expect(formatTable(COLUMNS, rows).split("\n")).toEqual([
    "name         to net      n",
    "-----------  ------  -----",
    "a long name    1.00  12346",
    "short         12.30      7",
  ]);
});

test("a missing measurement is a dash", () => {
  const rows = [{ name: "direct", ratio: Number.NaN }];
  expect(formatTable(COLUMNS, rows).split("\n").at(-1)).toBe("direct       -  -");
});

test("no line ends in spaces", () => {
  const columns = [COLUMNS[1], COLUMNS[0]].filter((column) => column !== undefined);
  const text = formatTable(columns, [
    { name: "much longer", ratio: 1 },
    { name: "x", ratio: 2 },
  ]);
  expect(text).not.toMatch(/ $/m);
});
