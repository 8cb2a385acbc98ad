import { describe, expect, test } from "vitest";
import { checked } from "../../../../gateway/formats/checked.ts";
import { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, schemaText, toolName } from "../../../../gateway/formats/tools.ts";
import { faultOf } from "./thrown-by.ts";

const path = ["tools", 0, "function", "parameters"];
const param = "tools[0].function.parameters";

/** A schema whose objects are nested `levels` deep, the outermost counted. */
function nested(levels: number): object {
  return levels === 1 ? {} : { items: nested(levels - 1) };
}

/** A schema whose text has exactly `bytes` bytes. */
function sized(bytes: number): object {
  return { description: "x".repeat(bytes - '{"description":""}'.length) };
}

describe("limits of a schema", () => {
  test("the text is that of the caller's value", () => {
    const text = '{"type":"object","properties":{"b":{"type":["string","null"]},"a":{"$ref":"#/$defs/a"}}}';
    expect(schemaText(JSON.parse(text), path, "function", false)).toBe(text);
  });

  test("unknown keywords are accepted", () => {
    expect(
      schemaText({ "x-whatever": 1, $schema: "https://json-schema.org/draft/2020-12/schema" }, path, "function", false),
    ).toBe('{"x-whatever":1,"$schema":"https://json-schema.org/draft/2020-12/schema"}');
  });

  test.each([[null], ["x"], [[]], [3], [true]])("%j is not a schema", (value) => {
    expect(faultOf(() => schemaText(value, path, "function", false))).toEqual({ code: "invalid_type", param });
  });

  test("the deepest and the largest schema allowed pass, one more does not", () => {
    expect(schemaText(nested(MAX_SCHEMA_DEPTH), path, "function", false)).toContain("items");
    expect(faultOf(() => schemaText(nested(MAX_SCHEMA_DEPTH + 1), path, "function", false))).toEqual({
      code: "invalid_function_parameters",
      param,
    });
    expect(schemaText(sized(MAX_SCHEMA_BYTES), path, "response", false)).toHaveLength(MAX_SCHEMA_BYTES);
    expect(faultOf(() => schemaText(sized(MAX_SCHEMA_BYTES + 1), path, "response", false)).code).toBe(
      "invalid_json_schema",
    );
  });

  test("a number beyond the range of doubles is refused, as its text would be null", () => {
    expect(faultOf(() => schemaText(JSON.parse('{"maximum":1e999}'), path, "function", false)).code).toBe(
      "invalid_function_parameters",
    );
  });

  test.each([
    [{ $ref: "https://example.com/schema.json" }],
    [{ $ref: "file:///etc/passwd" }],
    [{ properties: { a: { $ref: "other.json#/a" } } }],
    [{ anyOf: [{ $dynamicRef: "http://example.com" }] }],
    [{ properties: { properties: { $ref: "http://example.com" } } }],
    [{ properties: { default: { $ref: "http://example.com" } } }],
  ])("the reference to another document in %j is refused", (schema) => {
    expect(faultOf(() => schemaText(schema, path, "function", false)).code).toBe("invalid_function_parameters");
  });

  test.each([
    [{ properties: { $ref: { type: "string" } } }],
    [{ $ref: "#" }],
    [{ const: { $ref: "http://example.com" } }],
    [{ default: [{ $ref: "x" }] }],
    [{ enum: [{ $ref: "x" }] }],
  ])("%j refers to no other document", (schema) => {
    expect(schemaText(schema, path, "function", false)).toBe(JSON.stringify(schema));
  });
});

describe("names of tools", () => {
  test.each([["read"], ["mcp__files__read"], ["a.b:c-d_E9"], ["x".repeat(128)]])("%s is a name", (name) => {
    expect(checked(toolName, name, ["name"])).toBe(name);
  });

  test.each([
    [undefined, "missing_required_parameter"],
    [null, "missing_required_parameter"],
    [7, "invalid_type"],
    ["", "invalid_value"],
    ["a b", "invalid_value"],
    ["a\n", "invalid_value"],
    ["<|im_end|>", "invalid_value"],
    ["\ud800", "invalid_value"],
    ["x".repeat(129), "invalid_value"],
  ])("%j is no name", (name, code) => {
    expect(faultOf(() => checked(toolName, name, ["tools", 1, "name"]))).toEqual({ code, param: "tools[1].name" });
  });
});
