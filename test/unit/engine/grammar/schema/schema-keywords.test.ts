import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { KEYWORDS, NOT_ENFORCED } from "../../../../../engine/grammar/schema/schema-keywords.ts";

const README = readFileSync(new URL("../../../../../engine/README.md", import.meta.url), "utf8");
/** The keywords of each line of the table, and whether the line lists them as not enforced. */
const LINES = README.split("\n").flatMap((line) => {
  const [, keywords = "", enforced = ""] = line.startsWith("| `") ? line.split("|") : [];
  const names = [...keywords.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
  return names.some((name) => name in KEYWORDS) ? [{ names, isNothing: enforced.trim() === "nothing" }] : [];
});

test("the documented table lists every keyword once, and those that are not enforced", () => {
  const named = LINES.flatMap(({ names }) => names);
  expect(named.toSorted()).toEqual(Object.keys(KEYWORDS).toSorted());
  expect(LINES.flatMap(({ names, isNothing }) => (isNothing ? names : [])).toSorted()).toEqual(NOT_ENFORCED.toSorted());
});
