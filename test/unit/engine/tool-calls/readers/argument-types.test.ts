import { expect, test } from "vitest";
import { type ArgumentPath, argumentTypes, ITEM } from "../../../../../engine/tool-calls/readers/argument-types.ts";

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
])("%j allows %j", (schema, types) => {
  expect(typesOf(schema)).toEqual(types);
});

test("references inside the schema are followed, cycles included", () => {
  const $defs = { "a/b": { type: "boolean" }, loop: { $ref: "#/$defs/loop" } };
  expect(typesOf({ $ref: "#/$defs/a~1b" }, { $defs })).toEqual(["boolean"]);
  expect(typesOf({ $ref: "#/$defs/loop" }, { $defs })).toBeUndefined();
  expect(typesOf({ $ref: "#/$defs/none" }, { $defs })).toBeUndefined();
  expect(typesOf({ $ref: "https://example.com" }, { $defs })).toBeUndefined();
});

test("parameters are found wherever the schema declares them", () => {
  const a = { type: "string" };
  expect(typesIn({ allOf: [{ properties: { a } }] })).toEqual(["string"]);
  expect(typesIn({ anyOf: [{ properties: { a } }, { properties: { a: { type: "null" } } }] })).toEqual([
    "null",
    "string",
  ]);
  expect(typesIn({ $ref: "#/$defs/x", $defs: { x: { properties: { a } } } })).toEqual(["string"]);
  expect(typesIn({ properties: { a } }, "toString")).toBeUndefined();
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

test("a cyclic alternative allows any type", () => {
  const $defs = {
    outer: { properties: { a: { type: "string" } }, anyOf: [{ $ref: "#/$defs/inner" }] },
    inner: { anyOf: [{ $ref: "#/$defs/outer" }, { properties: { a: { type: "null" } } }] },
  };
  expect(typesIn({ $ref: "#/$defs/outer", $defs })).toEqual(["string"]);
});

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
