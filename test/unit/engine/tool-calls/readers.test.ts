import { describe, expect, test } from "vitest";
import { type ArgumentPath, argumentTypes, ITEM } from "../../../../engine/tool-calls/argument-types.ts";
import { jsonOfPython } from "../../../../engine/tool-calls/argument-writer.ts";
import { JsonScanner } from "../../../../engine/tool-calls/json-scanner.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const typesIn = (schema: unknown, ...path: ArgumentPath) => {
  const where = path.length > 0 ? path : ["a"];
  const types = argumentTypes([{ name: "t", parametersJsonSchema: JSON.stringify(schema) }])("t", where);
  return types === undefined ? undefined : [...types].sort();
};
const typesOf = (a: unknown, more: object = {}) => typesIn({ type: "object", properties: { a }, ...more });

test.each([
  [{ type: "string" }, ["string"]],
  [{ type: "integer" }, ["number"]],
  [{ type: ["string", "null"] }, ["null", "string"]],
  [{ enum: ["a", 1, null, true, [1], {}] }, ["array", "boolean", "null", "number", "object", "string"]],
  [{ const: false }, ["boolean"]],
  [{ properties: {} }, ["object"]],
  [{ items: {} }, ["array"]],
  [{ anyOf: [{ type: "string" }, { type: "array" }] }, ["array", "string"]],
  [{ anyOf: [{ type: "string" }, {}] }, undefined],
  [{ oneOf: [{ type: "string" }], type: ["string", "null"] }, ["string"]],
  [{ allOf: [{ type: ["string", "number"] }, { type: ["number", "null"] }] }, ["number"]],
  [{ description: "anything" }, undefined],
  [true, undefined],
  ["no schema", undefined],
])("a parameter with the schema %j allows the types %j", (schema, types) => {
  expect(typesOf(schema)).toEqual(types);
});

test("references inside the schema are followed, cycles included", () => {
  const $defs = { "a/b": { type: "boolean" }, loop: { $ref: "#/$defs/loop" } };
  expect(typesOf({ $ref: "#/$defs/a~1b" }, { $defs })).toEqual(["boolean"]);
  expect(typesOf({ $ref: "#/$defs/loop" }, { $defs })).toBeUndefined();
  expect(typesOf({ $ref: "#/$defs/none" }, { $defs })).toBeUndefined();
  expect(typesOf({ $ref: "https://example.com" }, { $defs })).toBeUndefined();
});

test("invalid JSON and an unknown tool allow any type", () => {
  const types = argumentTypes([{ name: "t", parametersJsonSchema: "{" }]);
  expect([types("t", ["a"]), types("u", ["a"])]).toEqual([undefined, undefined]);
});

test.each(["allOf", "anyOf", "oneOf"])(
  "a schema that multiplies by references in %s allows any type at once",
  (list) => {
    const x = { [list]: Array.from({ length: 50 }, () => ({ $ref: "#/$defs/x" })) };
    expect(typesOf({ $ref: "#/$defs/x" }, { $defs: { x } })).toBeUndefined();
    const doubled = Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [
        `x${i}`,
        { [list]: [{ $ref: `#/$defs/x${i + 1}` }, { $ref: `#/$defs/x${i + 1}` }] },
      ]),
    );
    expect(
      typesIn({ $ref: "#/$defs/x0", $defs: { ...doubled, x30: { properties: { a: { type: "null" } } } } }),
    ).toEqual(["null"]);
  },
);

test("beyond the work budget any type is allowed, whatever the size of the schema", () => {
  const wide = { anyOf: Array.from({ length: 3000 }, () => ({ type: "string" })) };
  expect(typesOf(wide)).toBeUndefined();
  expect(typesOf({ enum: Array.from({ length: 3_000 }, String) })).toEqual(["string"]);
  expect(typesOf({ enum: Array.from({ length: 20_000 }, String) })).toBeUndefined();
  const deep = `{"properties":{"a":${'{"allOf":['.repeat(9000)}{}${"]}".repeat(9000)}}}`;
  expect(argumentTypes([{ name: "t", parametersJsonSchema: deep }])("t", ["a"])).toBeUndefined();
});

test.each([[{ type: [{ toString: 1 }] }], [{ type: "constructor" }], [{ type: ["__proto__", 7, null] }]])(
  "%j names no type and allows any",
  (schema) => {
    expect(typesOf(schema)).toBeUndefined();
  },
);

test("nested values are found by path, through references and alternatives", () => {
  const point = { type: "object", properties: { x: { type: "number" }, a: { type: "boolean" } } };
  const list = { type: "array", items: { anyOf: [{ $ref: "#/$defs/point" }, { type: "null" }] } };
  const schema = { properties: { a: point, list, free: { type: "array" } }, $defs: { point } };
  expect(typesIn(schema, "a", "a")).toEqual(["boolean"]);
  expect(typesIn(schema, "list", ITEM, "x")).toEqual(["number"]);
  expect(typesIn(schema, "list", ITEM)).toEqual(["null", "object"]);
  expect(typesIn(schema, "list", "0", "x")).toBeUndefined();
  expect(typesIn(schema, "free", ITEM)).toBeUndefined();
  expect(typesIn(schema, "a", "y")).toBeUndefined();
});

test("the search in a recursive schema ends with the path", () => {
  const tree = { type: "object", properties: { next: { $ref: "#" }, a: { type: "string" } } };
  expect(typesIn(tree, "next", "next", "a")).toEqual(["string"]);
  expect(typesIn(tree, ...Array.from({ length: 100 }, () => "next"), "a")).toBeUndefined();
});

describe("JsonScanner", () => {
  test("JsonScanner ends a top-level number with the character after it", () => {
    const scanner = new JsonScanner({ root: "any" });
    expect(scanner.push("-1.5")).toEqual({ consumed: 4, state: "incomplete" });
    expect(scanner.isWhole).toBe(true);
    expect(scanner.push("e")).toEqual({ consumed: 1, state: "incomplete" });
    expect(scanner.isWhole).toBe(false);
    expect(scanner.push("7 ")).toEqual({ consumed: 1, state: "complete" });
  });

  test("JsonScanner limits the depth of values", () => {
    expect(new JsonScanner({ root: "any", maxDepth: 3 }).push("[[[[")).toEqual({ consumed: 3, state: "invalid" });
    expect(new JsonScanner({ root: "any" }).push("[".repeat(512)).state).toBe("incomplete");
    expect(new JsonScanner({ root: "any" }).push("[".repeat(513)).state).toBe("invalid");
  });

  test("JsonScanner agrees with JSON.parse on damaged texts", () => {
    const random = seededRandom(7);
    const base = '{"a": [1, -2.5e3, true, null, "x\\u00e9\\n"], "c": {"d": false}}';
    const alphabet = '{}[]",:\\ntrue-0.1eE+ \n';
    for (let round = 0; round < 5000; round += 1) {
      const at = Math.floor(random() * base.length);
      const char = alphabet.charAt(Math.floor(random() * alphabet.length));
      const text =
        random() < 0.5 ? base.slice(0, at) + char + base.slice(at + 1) : base.slice(0, at) + char + base.slice(at);
      const scanner = new JsonScanner({ root: "any" });
      const { consumed, state } = scanner.push(text);
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      expect(state === "complete" && text.slice(consumed).trim() === "", text).toBe(valid);
    }
  });
});

describe("Python's printed values become JSON", () => {
  test.each([
    ["{}", {}],
    ["[ ]", []],
    ["()", []],
    ["{'a': 1, \"b\": [True, False, None]}", { a: 1, b: [true, false, null] }],
    ["{'a': {'b': ({'c': -1.5e3},)},}", { a: { b: [{ c: -1500 }] } }],
    ["['it\\'s', \"it's\", 'say \"hi\"', '']", ["it's", "it's", 'say "hi"', ""]],
    ["['C:\\\\apps\\\\new', '\\d+', 'a\\nb', '\\x41\\u010d']", ["C:\\apps\\new", "\\d+", "a\nb", "Ač"]],
    ["[true, null, 'š', (1, 2)]", [true, null, "š", [1, 2]]],
    [" [1,\n 2] \n", [1, 2]],
  ])("a value that Python printed becomes JSON: %s", (text, wanted) => {
    expect(JSON.parse(jsonOfPython(text) ?? '"none"')).toEqual(wanted);
  });

  test("digits of a value that Python printed stay as written", () => {
    expect(jsonOfPython("[9007199254740993, 5.0]")).toBe("[9007199254740993, 5.0]");
  });
});

test.each([
  ["a number", "1"],
  ["text after the value", "[1] 2"],
  ["a truncated value", "{'a': [1, 2"],
  ["a text with a prefix", "[b'a']"],
  ["a number that JSON does not write", "[007]"],
  ["a name", "[inf]"],
  ["a line break in a text", "['a\nb']"],
  ["a call", "[open('x')]"],
  ["lists nested too deeply", `${"[".repeat(100)}${"]".repeat(100)}`],
])("%s is left unchanged", (_, text) => {
  expect(jsonOfPython(text)).toBeUndefined();
});
