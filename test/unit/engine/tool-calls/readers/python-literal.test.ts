import { describe, expect, test } from "vitest";
import { argumentTypes, type JsonType } from "../../../../../engine/tool-calls/readers/argument-types.ts";
import { jsonOf } from "../../../../../engine/tool-calls/readers/argument-writer.ts";
import { jsonOfPython } from "../../../../../engine/tool-calls/readers/python-literal.ts";

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
  ])("%s", (text, wanted) => {
    expect(JSON.parse(jsonOfPython(text) ?? '"none"')).toEqual(wanted);
  });

  test("digits stay as written", () => {
    expect(jsonOfPython("[9007199254740993, 5.0]")).toBe("[9007199254740993, 5.0]");
  });
});

test.each([
  ["a text", "'a'"],
  ["a number", "1"],
  ["brackets around one value", "('a')"],
  ["text after the value", "[1] 2"],
  ["a truncated value", "{'a': [1, 2"],
  ["a key that is not a text", "{1: 2}"],
  ["a set", "{'a', 'b'}"],
  ["two texts side by side", "['a' 'b']"],
  ["a text with a prefix", "[b'a']"],
  ["a sum", "[1 + 2]"],
  ["a number that JSON does not write", "[007]"],
  ["a number with an underscore", "[1_000]"],
  ["an invalid number", "[1e999]"],
  ["a name", "[inf]"],
  ["a line break in a text", "['a\nb']"],
  ["an escape with octal digits", "['\\0']"],
  ["half an escape", "['\\x4']"],
  ["a call", "[open('x')]"],
  ["two commas", "[1,,2]"],
  ["lists nested too deeply", `${"[".repeat(100)}${"]".repeat(100)}`],
])("%s is left unchanged", (_, text) => {
  expect(jsonOfPython(text)).toBeUndefined();
});

test("a long text costs linear time", () => {
  const open = `[${"'a', ".repeat(10_000)}`;
  expect(jsonOfPython(open)).toBeUndefined();
  expect(JSON.parse(jsonOfPython(`${open}]`) ?? "[]")).toHaveLength(10_000);
});

describe("a value is read as Python's", () => {
  const types = (...names: JsonType[]) => new Set(names);

  test.each([
    ["where an object has to be", "{'a': 1}", types("object"), '{"a": 1}'],
    ["where a list may be, or null", "('a', 1)", types("array", "null"), '["a", 1]'],
    ["not where a text may be", "{'a': 1}", types("object", "string"), "\"{'a': 1}\""],
    ["not where a list has to be, and it is an object", "{'a': 1}", types("array"), "\"{'a': 1}\""],
    ["not without a schema", "{'a': 1}", undefined, "\"{'a': 1}\""],
    ["not where it is JSON of another type", "[1]", types("object"), "[1]"],
  ])("%s", (_, text, allowed, wanted) => {
    expect(jsonOf(text, allowed)).toBe(wanted);
  });

  test("by the types of a schema", () => {
    const schema = { type: "object", properties: { a: { type: "array" } } };
    const known = argumentTypes([{ name: "run", parametersJsonSchema: JSON.stringify(schema) }]);
    expect(jsonOf("['x']", known("run", ["a"]))).toBe('["x"]');
  });
});
