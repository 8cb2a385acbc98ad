import { describe, expect, test } from "vitest";
import { isIndexKey, isRestated, type Notation, notationOf } from "../../../../gateway/json/json-notation.ts";

/** A notation as plain objects, for comparing. */
function shown(notation: Notation | undefined): unknown {
  if (notation === undefined) return undefined;
  const members = [...notation.members].map(([key, member]) => [
    key,
    typeof member === "string" ? member : shown(member),
  ]);
  return { ...(notation.keys && { keys: notation.keys }), ...Object.fromEntries(members) };
}

test.each([
  "{}",
  "[]",
  "7",
  '"1.0"',
  '{"a":1,"b":[true,null,-1.5,"0"],"c":{"d":1e+21}}',
  ' { "a" : [ 1 , 2 ] } ',
  String.raw`{"a\"{":"}\\","b":"\\\""}`,
])("a value that tells all of its text has none: %s", (text) => {
  expect(notationOf(text)).toBeUndefined();
});

test.each<readonly [text: string, expected: unknown]>([
  ['{"a":1.0}', { a: "1.0" }],
  ["[1,-0]", { 1: "-0" }],
  ['{"a":[{},[1e3]]}', { a: { 1: { 0: "1e3" } } }],
  ['{"b":1,"2":{},"1":0.10}', { keys: ["b", "2", "1"], 1: "0.10" }],
  [String.raw`{"b":1,"\u0031":2}`, { keys: ["b", "1"] }],
  ['{"__proto__":{"a":1.0}}', { ["__proto__"]: { a: "1.0" } }],
  ['\n{ "a" :\t[ 1.0\r\n, 2.0 ]\n}', { a: { 0: "1.0", 1: "2.0" } }],
])("%s is told by %j", (text, expected) => {
  expect(shown(notationOf(text))).toEqual(expected);
});

describe("of a key that is there more than once", () => {
  test.each<readonly [text: string, expected: unknown]>([
    ['{"a":1.0,"a":1}', undefined],
    ['{"a":{"b":1.0},"a":[2.0]}', { a: { 0: "2.0" } }],
    ['{"a":0,"1":0,"a":1.0,"1":3.0}', { keys: ["a", "1"], a: "1.0", 1: "3.0" }],
  ])("the first place and the last value count: %s", (text, expected) => {
    expect(shown(notationOf(text))).toEqual(expected);
  });
});

test.each([
  ["0", true],
  ["10", true],
  ["4294967294", true],
  ["01", false],
  ["-1", false],
  ["1.0", false],
  ["", false],
  ["2024-01-01", false],
  ["12345678901", false],
])("whether %j may be moved to the front: %j", (key, expected) => {
  expect(isIndexKey(key)).toBe(expected);
  const moved = Object.keys({ a: 0, [key]: 0 })[0] === key;
  if (moved) expect(isIndexKey(key)).toBe(true);
});

test.each([
  ["1", false],
  ["-1.5", false],
  ["1e21", true],
  ["1e+21", false],
  ["1.0", true],
  ["-0", true],
  ["9007199254740993", true],
  ["1e-999", true],
])("whether %s is written in another way: %j", (text, expected) => {
  expect(isRestated(text)).toBe(expected);
  expect(JSON.stringify(JSON.parse(text)) !== text).toBe(expected);
});
