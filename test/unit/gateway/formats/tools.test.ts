import { describe, expect, test } from "vitest";
import { checked } from "../../../../gateway/formats/checked.ts";
import { functionTool, responsesRequest } from "../../../../gateway/formats/responses/schema.ts";
import { EMPTY_PARAMETERS, MAX_TOOLS, toolName, toolOf } from "../../../../gateway/formats/tools.ts";
import { faultOf } from "./thrown-by.ts";

describe("tools", () => {
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

  test("a list is an array within the cap; null and absent are none", () => {
    const { tools } = responsesRequest.shape;
    const of = (value: unknown) => checked(tools, value, ["tools"]);
    expect([of(undefined), of(null)]).toEqual([undefined, null]);
    expect(of(new Array(MAX_TOOLS).fill({}))).toHaveLength(MAX_TOOLS);
    expect(faultOf(() => of(new Array(MAX_TOOLS + 1).fill({}))).code).toBe("array_above_max_length");
    expect(faultOf(() => of({})).code).toBe("invalid_type");
  });

  test("a tool keeps the exact text of its schema; without one it has no arguments", () => {
    const path = ["tools", 0, "parameters"];
    const source = { name: "read", description: "Reads.", strict: true };
    expect(toolOf(source, { type: "object", a: 1 }, path)).toEqual({
      ...source,
      parametersJsonSchema: '{"type":"object","a":1}',
    });
    expect(toolOf({ name: "read", strict: null, description: null }, null, path)).toEqual({
      name: "read",
      description: "",
      parametersJsonSchema: EMPTY_PARAMETERS,
      strict: false,
    });
  });

  test.each([
    [{ name: "a", description: 1 }, "tools[0].description"],
    [{ name: "a", strict: "yes" }, "tools[0].strict"],
    [{ name: "a", parameters: "x" }, "tools[0].parameters"],
    [{ name: "a", parameters: [] }, "tools[0].parameters"],
  ])("the wrong type in %j is named", (source, param) => {
    const tool = { type: "function", ...source };
    expect(faultOf(() => checked(functionTool, tool, ["tools", 0]))).toEqual({ code: "invalid_type", param });
  });
});
