import { describe, expect, test } from "vitest";
import { toTemplateValue } from "../../../../engine/conversation/template-json.ts";

const standIns = {
  text: (text: string, always: boolean) => (always ? `!${text}` : text),
  number: (one: string) => `#${one}`,
};

describe("JSON keeps what JavaScript would lose", () => {
  const cases: readonly [json: string, value: unknown][] = [
    ['{"a": [1, -2, 0.5, true, null, "x"]}', { a: [1, -2, 0.5, true, null, "x"] }],
    ['{"id": 12345678901234567890}', { id: "#12345678901234567890" }],
    ['{"price": 1.0}', { price: "#1.0" }],
    ['{"far": 1e400, "near": -0}', { far: "#1e400", near: "#-0" }],
    ['{"2": "b", "1": "a"}', { "!2": "b", "!1": "a" }],
    ['{"__proto__": 1}', { "!__proto__": 1 }],
    ['{"text": "12.0 {\\"1\\": [2.0]} \\\\"}', { text: '12.0 {"1": [2.0]} \\' }],
  ];
  test.each(cases)("%s", (json, value) => {
    expect(toTemplateValue(json, "arguments", standIns)).toEqual(value);
  });
});

test("every string is offered for a stand-in, keys too", () => {
  const seen: string[] = [];
  toTemplateValue('{"key": ["one", {"inner": "two"}]}', "arguments", {
    ...standIns,
    text: (text) => seen[seen.push(text) - 1] ?? "",
  });
  expect(seen).toEqual(["key", "one", "inner", "two"]);
});

test.each(["", "{", "{'a': 1}", "NaN", '{"a": 1} x', `${"[".repeat(101)}${"]".repeat(101)}`])(
  "what is not JSON, or too deep, is refused: %s",
  (json) => {
    expect(toTemplateValue(json, "arguments", standIns)).toBeUndefined();
  },
);

test("a hundred levels are not too deep", () => {
  expect(toTemplateValue(`${"[".repeat(100)}${"]".repeat(100)}`, "arguments", standIns)).toBeDefined();
});

describe("names that the interpreter would take for a method of its own are moved", () => {
  test("wherever they stand in arguments", () => {
    const json = '{"items": [{"keys": 1, "values": {"get": 2}}], "dictsort": 3, "length": 4}';
    expect(toTemplateValue(json, "arguments", standIns)).toEqual({
      "!items": [{ "!keys": 1, "!values": { "!get": 2 } }],
      "!dictsort": 3,
      length: 4,
    });
  });

  test("in a schema where they name a property, and not where they are keywords", () => {
    const schema = {
      type: "object",
      properties: {
        items: { type: "array", items: { type: "string" } },
        properties: { type: "array", items: { properties: { get: {} } } },
      },
      $defs: { keys: { items: {} } },
    };
    expect(toTemplateValue(JSON.stringify(schema), "schema", standIns)).toEqual({
      type: "object",
      properties: {
        "!items": { type: "array", items: { type: "string" } },
        properties: { type: "array", items: { properties: { "!get": {} } } },
      },
      $defs: { "!keys": { items: {} } },
    });
  });
});

test("millions of escapes and of brackets are read like few", () => {
  const escapes = '"\\'.repeat(2_000_000);
  expect(toTemplateValue(JSON.stringify({ a: escapes, b: 1 }), "arguments", standIns)).toEqual({ a: escapes, b: 1 });
  expect(toTemplateValue("[".repeat(3_000_000), "arguments", standIns)).toBeUndefined();
});
