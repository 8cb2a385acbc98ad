import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const CASES = 134;
const CONTRACT = join(import.meta.dirname, "..");

/** A title with "case 12" or "case 12a", of a test, a group, or a row of a table. */
const TITLE = /["'`]case (\d{1,3})[a-z]?(?: \([^)]*\))?: |["'`]case (\d{1,3})[a-z]["'`]/g;

test("every case of the wire reference has a test", () => {
  const files = readdirSync(CONTRACT, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".test.ts"),
  );
  const titles = files.flatMap((file) => [...readFileSync(join(CONTRACT, file), "utf8").matchAll(TITLE)]);
  const covered = new Set(titles.map(([, plain, lettered]) => Number(plain ?? lettered)));
  const numbers = Array.from({ length: CASES }, (_, index) => index + 1);
  expect(numbers.filter((number) => !covered.has(number))).toEqual([]);
  expect([...covered].filter((number) => number > CASES)).toEqual([]);
});
