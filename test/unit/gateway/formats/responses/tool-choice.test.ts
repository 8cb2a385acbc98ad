import { describe, expect, test } from "vitest";
import { ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { prepare, refusal } from "./prepared-request.ts";

const tools = [
  { type: "function", name: "read" },
  { type: "namespace", name: "fs", tools: [{ type: "function", name: "write" }] },
];
const base = { mode: ToolChoiceMode.AUTO, name: "", disableParallelCalls: false, allowedNames: [] };

describe("tool_choice", () => {
  test.each([
    [undefined, base],
    [null, base],
    ["auto", base],
    ["none", { ...base, mode: ToolChoiceMode.NONE }],
    ["required", { ...base, mode: ToolChoiceMode.REQUIRED }],
    [
      { type: "function", name: "read" },
      { ...base, mode: ToolChoiceMode.NAMED, name: "read" },
    ],
    [
      { type: "function", namespace: "fs", name: "write" },
      { ...base, mode: ToolChoiceMode.NAMED, name: "fs__write" },
    ],
    [
      { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "read" }] },
      { ...base, allowedNames: ["read"] },
    ],
    [
      { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "write", namespace: "fs" }] },
      { ...base, mode: ToolChoiceMode.REQUIRED, allowedNames: ["fs__write"] },
    ],
  ])("%j is supported", (choice, expected) => {
    expect(prepare({ tools, tool_choice: choice }).request.toolChoice).toEqual(expected);
  });

  test("parallel calls are on unless switched off", () => {
    expect(prepare({ tools, parallel_tool_calls: false }).request.toolChoice?.disableParallelCalls).toBe(true);
    expect(prepare({ tools, parallel_tool_calls: true }).request.toolChoice?.disableParallelCalls).toBe(false);
  });

  test.each([[undefined], ["auto"], ["none"]])("%j does not need tools", (choice) => {
    expect(prepare({ tools: [], tool_choice: choice }).request.toolChoice).toBeUndefined();
  });

  test.each([
    ["required", "invalid_value", "tool_choice"],
    [{ type: "function", name: "read" }, "invalid_value", "tool_choice"],
  ])("%j without tools is refused", (choice, code, path) => {
    expect(refusal({ tool_choice: choice }).slice(0, 2)).toEqual([code, path]);
  });

  test.each([
    ["any", "invalid_value", "tool_choice"],
    [{}, "missing_required_parameter", "tool_choice.type"],
    [{ type: "web_search_preview" }, "unsupported_value", "tool_choice.type"],
    [{ type: "custom", name: "read" }, "unsupported_value", "tool_choice.type"],
    [{ type: "function", name: "write" }, "invalid_value", "tool_choice"],
    [{ type: "allowed_tools", mode: "none", tools: [] }, "invalid_value", "tool_choice.mode"],
    [{ type: "allowed_tools", mode: "auto", tools: [] }, "empty_array", "tool_choice.tools"],
    [
      { type: "allowed_tools", mode: "auto", tools: [{ type: "mcp" }] },
      "unsupported_value",
      "tool_choice.tools[0].type",
    ],
    [
      { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "other" }] },
      "invalid_value",
      "tool_choice.tools[0]",
    ],
  ])("%j is refused", (choice, code, path) => {
    expect(refusal({ tools, tool_choice: choice }).slice(0, 2)).toEqual([code, path]);
  });
});
