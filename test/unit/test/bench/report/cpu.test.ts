import { expect, test } from "vitest";
import { parseProcessStat } from "../../../../bench/report.ts";

const REST = "S 1 42 42 0 -1 4194560 100 0 0 0 350 25 7 8 20 0 11 0 1000 1 2";

test.each([
  { name: "plain", program: "node" },
  { name: "with spaces and parentheses", program: "my (odd) S 1 2" },
])("user and system time are found after a program name that is $name", ({ program }) => {
  expect(parseProcessStat(`42 (${program}) ${REST}`)).toBe(3_750);
});
