import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/*
 * The rows of gateway/docs/threats.md. A test that covers one says so at the beginning of its title: `H5 …`,
 * `E1 and E2 …`.
 */

const TESTS = join(import.meta.dirname, "..");
const DOCUMENT = readFileSync(join(TESTS, "../gateway/docs/threats.md"), "utf8");

type Row = { readonly row: string; readonly leftOut: string };

/** The rows of the document, with what it says is left out of each. */
const ROWS: readonly Row[] = [...DOCUMENT.matchAll(/^\| ([A-Z]\d{1,2}) \|.*?\|.*?\|(.*)\|$/gm)].map(
  ([, row = "", leftOut = ""]) => ({ row, leftOut: leftOut.trim() }),
);

/** A literal that begins with numbers of rows. */
const TITLE = /["'`]((?:[A-Z]\d{1,2}(?:, | and | to )?)+)(?=[ "'`])/g;

function testedRows(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const file of readdirSync(TESTS, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".test.ts") || join(TESTS, file) === import.meta.filename) continue;
    for (const [, numbers = ""] of readFileSync(join(TESTS, file), "utf8").matchAll(TITLE)) {
      for (const [row] of numbers.matchAll(/[A-Z]\d{1,2}/g)) {
        const files = found.get(row) ?? [];
        if (!files.includes(file)) files.push(file);
        found.set(row, files);
      }
    }
  }
  return found;
}

const TESTED = testedRows();

test("the document has rows, each of them once", () => {
  expect(ROWS.length).toBeGreaterThan(70);
  expect(new Set(ROWS.map(({ row }) => row)).size).toBe(ROWS.length);
});

test.each(ROWS)("$row has a test, or the document says why it has none", ({ row, leftOut }) => {
  const files = TESTED.get(row) ?? [];
  if (leftOut.startsWith("none:")) expect(files).toEqual([]);
  else expect(files).not.toEqual([]);
});

test("only rows that the document has are named", () => {
  expect([...TESTED.keys()].filter((name) => !ROWS.some(({ row }) => row === name))).toEqual([]);
});
