import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/*
 * The rows of the list of threats and faults that are about streams, engines and the life of processes, by number. A test
 * that covers one says so at the beginning of its title: `H5 …`, `E1 and E2 …`.
 */

const TESTS = join(import.meta.dirname, "..");

/** How many rows each group has, and those of other groups that belong here. */
const ROWS: readonly string[] = [...rows("E", 12), ...rows("H", 14), ...rows("J", 8), "I1", "I6"];

/** Rows that need what no test here can have. */
const WITHOUT: Readonly<Record<string, string>> = {
  J5: "rolling restart of gateways behind a real proxy: needs a proxy as a separate program",
};

/** Parts of rows that are left, beside what their tests cover. */
const IN_PART: Readonly<Record<string, string>> = {
  E11: "the proxies between client and gateway are separate programs; the headers that steer them are tested",
  H6: "the contract has no version number and no digest of the tokenizer: a node is told apart by its services and models",
  J6: "Redis as the last to start: without a shared store there is nothing to wait for",
};

/** A literal that begins with numbers of rows. */
const TITLE = /["'`]((?:[EHIJ]\d{1,2}(?:, | and | to )?)+)(?=[ "'`])/g;

function rows(group: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${group}${index + 1}`);
}

function testedRows(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const file of readdirSync(TESTS, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".test.ts") || join(TESTS, file) === import.meta.filename) continue;
    for (const [, numbers = ""] of readFileSync(join(TESTS, file), "utf8").matchAll(TITLE)) {
      for (const [row] of numbers.matchAll(/[EHIJ]\d{1,2}/g)) {
        const files = found.get(row) ?? [];
        if (!files.includes(file)) files.push(file);
        found.set(row, files);
      }
    }
  }
  return found;
}

test.each(ROWS)("%s has a test, or a reason why it has none", (row) => {
  const files = testedRows().get(row) ?? [];
  if (row in WITHOUT) expect(files).toEqual([]);
  else expect(files).not.toEqual([]);
});

test("only rows that exist are named", () => {
  expect([...testedRows().keys()].filter((row) => !ROWS.includes(row))).toEqual([]);
  expect([...Object.keys(WITHOUT), ...Object.keys(IN_PART)].filter((row) => !ROWS.includes(row))).toEqual([]);
});
