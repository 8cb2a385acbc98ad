import { partialParse } from "@anthropic-ai/sdk/_vendor/partial-json-parser/parser";
import { partialParse as partialParse0 } from "anthropic-sdk-0/_vendor/partial-json-parser/parser";
import { expect, test } from "vitest";
import { asWritten, BREAK } from "../../../../../deploy/runtime/contract/broken-arguments.ts";

/** Arguments with every kind of token, and marks, escapes and brackets in strings. */
const WHOLE = [
  '{"city": "Paris \\"x\\" ", "days": 2, "a": [1, {"b": [true, null]}], "c": {"d": -1.5e3}, "e": {}}',
  '{"command": "rm -rf /tmp/x\\n\\u00e9 {[\\\\ "}',
];

/** What models write where they break the form. */
const RESTS = [
  "",
  ' days"}}',
  "</x>",
  "\n",
  " }",
  "}}",
  "]",
  "\\",
  "abc",
  '"',
  "{",
  "[",
  "{}",
  '{"a": 1}',
  'hi" > x"}',
];

const BROKEN = WHOLE.flatMap((json) =>
  Array.from(json, (_, at) => json.slice(0, at)).flatMap((begun) => RESTS.map((rest) => [begun, rest] as const)),
);

/** Throws or returns no object for a text that the reader refuses. */
const READERS: readonly (readonly [name: string, read: (text: string) => unknown])[] = [
  ["JSON.parse", JSON.parse],
  ["@anthropic-ai/sdk 1, partial", partialParse],
  ["@anthropic-ai/sdk 0, partial", partialParse0],
];

test.each(READERS)("%s takes no broken arguments for an object", (_, read) => {
  const taken = BROKEN.filter(([begun, rest]) => {
    try {
      return typeof read(begun + BREAK + rest) === "object";
    } catch {
      return false;
    }
  });
  expect(taken).toEqual([]);
});

test("broken arguments are given back as they were written", () => {
  for (const [begun, rest] of BROKEN) expect(asWritten(begun + BREAK + rest)).toBe(begun + rest);
  for (const json of WHOLE) expect(asWritten(json)).toBe(json);
  // The only texts with the same characters in JSON are these, which hold another escape.
  const near = JSON.stringify({ a: BREAK });
  expect(asWritten(near)).toBe(near);
});
