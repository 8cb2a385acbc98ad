import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const CASES = 134;
const CONTRACT = join(import.meta.dirname, "..");

/** A title with "case 12", "case 12a" or "cases 12, 13 and 14", of a test, a group, or a row of a table. */
const TITLE = /["'`]cases? ((?:\d{1,3}[a-z]?(?:, | and )?)+)(?: \([^)]*\))?(?:: |["'`])/g;

test("every case of the wire reference has a test", () => {
  const files = readdirSync(CONTRACT, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".test.ts"),
  );
  const titles = files.flatMap((file) => [...readFileSync(join(CONTRACT, file), "utf8").matchAll(TITLE)]);
  const covered = new Set(titles.flatMap(([, numbers]) => numbers?.match(/\d+/g) ?? []).map(Number));
  const numbers = Array.from({ length: CASES }, (_, index) => index + 1);
  expect(numbers.filter((number) => !covered.has(number))).toEqual([]);
  expect([...covered].filter((number) => number > CASES)).toEqual([]);
});
