import { describe, expect, test } from "vitest";
import { JsonNumber } from "../../../../engine/conversation/jinja/values.ts";
import { toTemplateValue } from "../../../../engine/conversation/template-json.ts";

const standIns = { text: (text: string) => text };
const number = (lexeme: string) => new JsonNumber(lexeme);

describe("JSON keeps details that JavaScript would lose", () => {
  const cases: readonly [json: string, value: unknown][] = [
    [
      '{"a": [1, -2, 0.5, true, false, null, "x"]}',
      new Map([["a", [number("1"), number("-2"), number("0.5"), true, false, null, "x"]]]),
    ],
    ['{"id": 12345678901234567890}', new Map([["id", number("12345678901234567890")]])],
    [
      '{"far": 1e400, "near": -0}',
      new Map([
        ["far", number("1e400")],
        ["near", number("-0")],
      ]),
    ],
    [
      '{"2": {}, "1": []}',
      new Map<string, unknown>([
        ["2", new Map()],
        ["1", []],
      ]),
    ],
    ['{"__proto__": "x"}', new Map([["__proto__", "x"]])],
    [' [ { "text" : "12.0 {\\"1\\": [2.0], true} \\\\" } ] ', [new Map([["text", '12.0 {"1": [2.0], true} \\']])]],
    ['"x"', "x"],
  ];
  test.each(cases)("%s", (json, value) => {
    const read = toTemplateValue(json, standIns);
    expect(read).toEqual(value);
    if (read instanceof Map && value instanceof Map) expect([...read.keys()]).toEqual([...value.keys()]);
  });
});

test("every string is passed to the placeholders, keys included", () => {
  const seen: string[] = [];
  toTemplateValue('{"key": ["one", {"inner": "two"}]}', { text: (text) => seen[seen.push(text) - 1] ?? "" });
  expect(seen).toEqual(["key", "one", "inner", "two"]);
});

test.each(["", "{", "{'a': 1}", "NaN", '{"a": 1} x', `${"[".repeat(101)}${"]".repeat(101)}`])(
  "invalid or too deeply nested JSON is refused: %s",
  (json) => {
    expect(toTemplateValue(json, standIns)).toBeUndefined();
  },
);

test("a hundred levels are accepted", () => {
  expect(toTemplateValue(`${"[".repeat(100)}${"]".repeat(100)}`, standIns)).toBeDefined();
});

test("millions of escapes and brackets are read in linear time", () => {
  const escapes = '"\\'.repeat(2_000_000);
  const read = toTemplateValue(JSON.stringify({ a: escapes, b: "c" }), standIns);
  expect(read).toEqual(
    new Map([
      ["a", escapes],
      ["b", "c"],
    ]),
  );
  expect(toTemplateValue("[".repeat(3_000_000), standIns)).toBeUndefined();
});
