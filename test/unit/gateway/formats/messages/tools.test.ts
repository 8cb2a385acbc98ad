import { describe, expect, test } from "vitest";
import { checked } from "../../../../../gateway/formats/checked.ts";
import { toolChoiceOf, toolsOf } from "../../../../../gateway/formats/messages/request.ts";
import { messagesRequest } from "../../../../../gateway/formats/messages/schema.ts";
import { type Tool, ToolChoiceMode } from "../../../../../proto/gen/svc/inference/v1/messages.ts";
import { errorOf } from "./fixture.ts";

const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });
const { shape } = messagesRequest;
const declared = (value: unknown) => toolsOf(checked(shape.tools, value, ["tools"]));
const choiceOf = (value: unknown, among: readonly Tool[]) =>
  toolChoiceOf(checked(shape.tool_choice, value, ["tool_choice"]), among);
const { tools } = declared([tool("read"), tool("grep")]);

describe("toolsOf", () => {
  test("a tool keeps the text of its schema and its breakpoint", () => {
    const source = {
      type: "custom",
      name: "read",
      description: "Reads.",
      input_schema: { type: "object", properties: { z: {}, a: {} } },
      strict: true,
      cache_control: { type: "ephemeral", ttl: "5m" },
      eager_input_streaming: true,
    };
    expect(declared([source]).tools).toEqual([
      {
        name: "read",
        description: "Reads.",
        parametersJsonSchema: '{"type":"object","properties":{"z":{},"a":{}}}',
        strict: true,
        cacheBreakpoint: { ttl: { seconds: 300, nanos: 0 } },
      },
    ]);
  });

  test.each([[undefined], [null], [[]]])("%j means no tools", (value) => {
    expect(declared(value).tools).toEqual([]);
  });

  test("a deferred tool is a tool, its placeholder is not", () => {
    const list = [tool("read", { defer_loading: true }), tool("DeferredToolPlaceholder", { defer_loading: true })];
    expect(declared(list).tools.map(({ name }) => name)).toEqual(["read"]);
    expect(declared(list).paths).toEqual([["tools", list.findIndex(({ name }) => name === "read")]]);
    expect(declared([tool("DeferredToolPlaceholder")]).tools).toHaveLength(1);
  });

  test("a tool of a custom type with a schema is accepted", () => {
    expect(declared([tool("bash", { type: "bash_20250124" })]).tools).toHaveLength(1);
  });

  test.each([
    [
      { type: "web_search_20250305", name: "web_search", max_uses: 8 },
      "tools of the type 'web_search' are not offered",
    ],
    [{ type: "mcp_toolset" }, "tools of the type 'mcp_toolset' are not offered"],
    [{ type: "SECRET", name: "x" }, "a tool of this type is not offered"],
  ])("the vendor's tool %j is refused, as its schema is missing", (source, explanation) => {
    const { type, message } = errorOf(() => declared([tool("a"), source]));
    expect(type).toBe("invalid_request_error");
    expect(message).toBe(
      `tools.1.input_schema: Field required; ${explanation} here, only tools with a schema of their own.`,
    );
  });

  test.each([
    [{}, "tools: Input should be an array of tools"],
    [[1], "tools.0: Input should be an object"],
    [[{ input_schema: {} }], "tools.0.name: Field required"],
    [[{ name: "a b", input_schema: {} }], "tools.0.name: expected 1 to 128 characters"],
    [[{ name: "a" }], "tools.0.input_schema: Field required"],
    [[{ name: "a", input_schema: null }], "tools.0.input_schema: Field required"],
    [[{ name: "a", input_schema: [] }], "tools.0.input_schema: Input should be an object"],
    [[{ type: 1, name: "a" }], "tools.0.type: Input should be a string"],
    [[tool("a"), tool("a")], "tools.1.name: Tool names must be unique."],
  ])("%j is refused", (value, message) => {
    expect(errorOf(() => declared(value)).message).toContain(message);
  });
});

describe("toolChoiceOf", () => {
  test.each([
    [{ type: "auto" }, { mode: ToolChoiceMode.AUTO, name: "", disableParallelCalls: false }],
    [{ type: "any" }, { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: false }],
    [{ type: "none" }, { mode: ToolChoiceMode.NONE, name: "", disableParallelCalls: false }],
    [
      { type: "tool", name: "grep" },
      { mode: ToolChoiceMode.NAMED, name: "grep", disableParallelCalls: false },
    ],
    [
      { type: "any", disable_parallel_tool_use: true },
      { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: true },
    ],
  ])("%j", (value, expected) => {
    expect(choiceOf(value, tools)).toEqual({ ...expected, allowedNames: [] });
  });

  test("the model chooses by default", () => {
    const auto = { mode: ToolChoiceMode.AUTO, name: "", disableParallelCalls: false, allowedNames: [] };
    expect(choiceOf(undefined, tools)).toEqual(auto);
    expect(choiceOf(null, tools)).toEqual(auto);
  });

  test("without tools there is no choice", () => {
    expect(choiceOf({ type: "auto" }, [])).toBeUndefined();
    expect(choiceOf({ type: "none" }, [])).toBeUndefined();
    expect(choiceOf(undefined, [])).toBeUndefined();
    expect(errorOf(() => choiceOf({ type: "any" }, [])).message).toContain("tool_choice: ");
  });

  test.each([
    ["auto", "tool_choice: Input should be an object"],
    [{}, "tool_choice.type: Field required"],
    [{ type: "required" }, "tool_choice.type: Input should be 'auto', 'any', 'tool', 'none'"],
    [{ type: "tool" }, "tool_choice.name: Field required"],
    [{ type: "tool", name: "SECRET" }, "tool_choice.name: no tool of this name is in 'tools'."],
    [
      { type: "auto", disable_parallel_tool_use: 1 },
      "tool_choice.disable_parallel_tool_use: Input should be a boolean",
    ],
  ])("%j is refused", (value, message) => {
    expect(errorOf(() => choiceOf(value, tools)).message).toBe(message);
  });
});
