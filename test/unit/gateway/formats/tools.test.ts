import { describe, expect, test } from "vitest";
import { checked } from "../../../../gateway/formats/checked.ts";
import { toolName } from "../../../../gateway/formats/tools.ts";
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
});
