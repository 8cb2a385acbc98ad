import { describe, expect, test } from "vitest";
import { ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../proto/gen/svc/inference/v1/messages.ts";
import { Modality } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { EVERY_KEYWORD, expectTaken, ONE_PATH, type Shape } from "../support/gateway/agent-shapes.ts";
import { serviceOfFile } from "../support/gateway/scripted-service.ts";

/*
 * Known request forms of agents and SDKs without a recording: their fields and blocks, our words.
 */

const service = serviceOfFile({ engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] } });

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const COUNT = "/v1/messages/count_tokens";
const RESPONSES = "/v1/responses";

describe("chat", () => {
  const tool = (name: string, more: object = {}) => ({
    type: "function",
    function: { name, description: "filler", parameters: ONE_PATH, ...more },
  });
  const call = (id: string) => ({ id, type: "function", function: { name: "view", arguments: '{"path":"a.ts"}' } });
  const text = (words: string) => ({ type: "text", text: words });
  const user = { role: "user", content: "filler" };

  const SHAPES: readonly Shape[] = [
    [
      "copilot: neutral sampling, an assistant message with a null refusal and no content",
      {
        temperature: 0,
        top_p: 0.95,
        frequency_penalty: 0,
        presence_penalty: 0,
        tools: [tool("view"), tool("bash")],
        stream_options: { include_usage: true },
        messages: [
          { role: "system", content: "filler" },
          user,
          { role: "assistant", refusal: null, tool_calls: [call("call_1")] },
          { role: "tool", tool_call_id: "call_1", content: "filler" },
        ],
      },
      { sampling: { temperature: 0, topP: 0.95 }, tools: [{ name: "view" }, { name: "bash" }] },
    ],
    [
      "qwen: a tool without parameters, text parts everywhere, an assistant message without content",
      {
        max_tokens: 32_000,
        tools: [{ type: "function", function: { name: "get_goal", description: "filler" } }, tool("view")],
        messages: [
          { role: "system", content: [text("filler")] },
          { role: "user", content: [text("one"), text("two")] },
          { role: "assistant", tool_calls: [call("call_1")] },
          { role: "tool", tool_call_id: "call_1", content: [text("three"), text("four")] },
        ],
      },
      { maxOutputTokens: 32_000, messages: [{}, { parts: [{}, {}] }, {}, { role: Role.TOOL }] },
    ],
    [
      "pi: max_completion_tokens, a developer and a level of its own",
      {
        max_completion_tokens: 4_096,
        store: false,
        reasoning_effort: "minimal",
        tools: [tool("view", { strict: false })],
        messages: [{ role: "developer", content: "filler" }, user],
      },
      { maxOutputTokens: 4_096, reasoning: { mode: ReasoningMode.ENABLED }, messages: [{ role: Role.SYSTEM }, {}] },
    ],
    [
      "cline: a choice of tools and no bound on tokens",
      {
        tools: Array.from({ length: 25 }, (_, index) => tool(`tool_${index}`)),
        tool_choice: "auto",
        stream_options: { include_usage: true },
      },
      { maxOutputTokens: undefined, toolChoice: { mode: ToolChoiceMode.AUTO } },
    ],
    [
      "opencode: empty text beside calls, and reasoning that comes back",
      {
        messages: [
          user,
          { role: "assistant", content: "", reasoning_content: "filler", tool_calls: [call("call_1")] },
          { role: "tool", tool_call_id: "call_1", content: "filler" },
        ],
      },
      { messages: [{}, { parts: [{ kind: { $case: "reasoning" } }, { kind: { $case: "toolCall" } }] }, {}] },
    ],
    [
      "ai, openai-compatible: an object without a schema",
      { response_format: { type: "json_object" } },
      { outputConstraint: { kind: { $case: "jsonObject" } } },
    ],
  ];

  test.each(SHAPES)("%s", async (_, fields, engineSees) => {
    await expectTaken(service, CHAT, fields, engineSees);
  });
});

describe("messages", () => {
  const tool = (name: string, more: object = {}) => ({ name, description: "filler", input_schema: ONE_PATH, ...more });
  const cached = { cache_control: { type: "ephemeral" } };
  const text = (words: string, more: object = {}) => ({ type: "text", text: words, ...more });
  const user = { role: "user", content: "filler" };
  const toolUse = { type: "tool_use", id: "toolu_1", name: "view", input: { path: "a.ts" } };
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

  /** A tool call and its result block. */
  const reads = (block: object) => ({
    tools: [tool("view")],
    messages: [user, { role: "assistant", content: [toolUse] }, { role: "user", content: [block] }],
  });

  const SHAPES: readonly Shape[] = [
    [
      "copilot: two system blocks without marks",
      { max_tokens: 8_192, temperature: 0, system: [text("one"), text("two")], tools: [tool("view")] },
      { messages: [{ role: Role.SYSTEM, parts: [{}, {}] }, {}] },
    ],
    [
      "qwen: a budget as large as max_tokens (decision 23)",
      {
        max_tokens: 32_000,
        temperature: 1,
        thinking: { type: "enabled", budget_tokens: 32_000 },
        system: [text("one", cached), text("two", cached)],
      },
      { reasoning: { mode: ReasoningMode.ENABLED, budgetTokens: 31_999 } },
    ],
    [
      "pi: eager tools, a mark on the last one, a result that is no error",
      {
        ...reads({ type: "tool_result", tool_use_id: "toolu_1", content: "filler", is_error: false }),
        tools: [
          tool("view", { eager_input_streaming: true }),
          tool("bash", { eager_input_streaming: true, ...cached }),
        ],
        thinking: { type: "enabled", budget_tokens: 1_024, display: "summarized" },
      },
      { tools: [{ name: "view" }, { name: "bash", cacheBreakpoint: {} }] },
    ],
    ["pi: thinking switched off", { thinking: { type: "disabled" } }, { reasoning: { mode: ReasoningMode.DISABLED } }],
    [
      "claude: a placeholder for tools that are held back",
      { tools: [tool("view"), tool("DeferredToolPlaceholder", { defer_loading: true })] },
      { tools: [{ name: "view" }] },
    ],
    [
      "claude: a reference to a tool that was found",
      reads({ type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "tool_reference", tool_name: "grep" }] }),
      { messages: [{}, {}, { role: Role.TOOL }] },
    ],
    [
      "claude: an image as a tool's result, with the mark behind it",
      reads({
        type: "tool_result",
        tool_use_id: "toolu_1",
        content: [{ type: "image", source: { type: "base64", data: pixel, media_type: "image/png" } }],
        ...cached,
      }),
      { messages: [{}, {}, { parts: [{ cacheBreakpoint: {} }] }] },
    ],
    [
      "claude: thinking with an empty signature comes back",
      {
        thinking: { type: "adaptive", display: "updates" },
        context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
        output_config: { effort: "high" },
        metadata: { user_id: '{"device":"filler"}' },
        messages: [
          user,
          { role: "assistant", content: [{ type: "thinking", thinking: "filler", signature: "" }, text("filler")] },
          user,
        ],
      },
      { messages: [{}, { parts: [{ kind: { $case: "reasoning" } }, { kind: { $case: "text" } }] }, {}] },
    ],
    [
      "ai, anthropic: an object as the one tool that must be called",
      { tools: [tool("json")], tool_choice: { type: "any", disable_parallel_tool_use: true } },
      { toolChoice: { mode: ToolChoiceMode.REQUIRED, disableParallelCalls: true } },
    ],
    [
      "langchain: an object as a named tool",
      { tools: [tool("extract")], tool_choice: { type: "tool", name: "extract" } },
      { toolChoice: { mode: ToolChoiceMode.NAMED, name: "extract" } },
    ],
  ];

  test.each(SHAPES)("%s", async (_, fields, engineSees) => {
    await expectTaken(service, MESSAGES, fields, engineSees);
  });

  test("claude: a burst of counts with empty tools and with one message for each tool", async () => {
    const bodies = Array.from({ length: 24 }, (_, index) => ({ tools: index === 0 ? [] : [tool(`tool_${index}`)] }));
    for (const reply of await Promise.all(bodies.map((fields) => service.reply(COUNT, fields))))
      expect(reply).toEqual({ input_tokens: expect.any(Number) });
  });

  test.each(["/", "/api/hello"])("claude: HEAD %s is answered without a key", async (path) => {
    const response = await fetch(`${service.gateway.baseUrl}${path}`, { method: "HEAD" });
    expect(response.status).toBe(200);
  });
});

describe("responses", () => {
  const tool = (name: string, more: object = {}) => ({
    type: "function",
    name,
    description: "filler",
    parameters: ONE_PATH,
    strict: false,
    ...more,
  });
  const inputText = (words: string) => [{ type: "input_text", text: words }];
  const user = { role: "user", content: "filler" };

  const SHAPES: readonly Shape[] = [
    [
      "codex: neutral service tier and verbosity, groups of its own tools",
      {
        input: [
          { type: "message", role: "developer", content: inputText("filler") },
          { type: "message", role: "user", content: inputText("one") },
          { type: "message", role: "user", content: inputText("two") },
          { type: "reasoning", id: "rs_1", summary: [], content: null, encrypted_content: "filler" },
        ],
        tools: [tool("exec_command"), { type: "namespace", name: "agents", tools: [tool("spawn")] }],
        tool_choice: "auto",
        parallel_tool_calls: true,
        reasoning: { summary: "auto" },
        service_tier: "auto",
        text: { verbosity: "low" },
        store: false,
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: "filler",
        client_metadata: { turn: "filler", window: "filler" },
      },
      { tools: [{ name: "exec_command" }, { name: expect.stringContaining("spawn") }] },
    ],
    [
      "copilot: a call whose item id is made from its call id",
      {
        instructions: "filler",
        input: [
          { role: "user", content: inputText("filler") },
          {
            type: "function_call",
            id: "fc_call_1",
            call_id: "call_1",
            name: "view",
            arguments: "{}",
            status: "completed",
          },
          { type: "function_call_output", call_id: "call_1", output: "filler" },
        ],
        tools: [tool("view")],
        reasoning: { summary: "auto" },
        prompt_cache_key: "filler",
        store: false,
        include: ["reasoning.encrypted_content"],
        parallel_tool_calls: true,
      },
      { messages: [{ role: Role.SYSTEM }, { role: Role.USER }, { role: Role.ASSISTANT }, { role: Role.TOOL }] },
    ],
    [
      "opencode: plain system text, a call and reasoning without ids",
      {
        input: [
          { role: "system", content: "filler" },
          { role: "user", content: inputText("filler") },
          { type: "reasoning", encrypted_content: "filler", summary: [{ type: "summary_text", text: "filler" }] },
          { type: "function_call", call_id: "call_1", name: "view", arguments: "{}" },
          { type: "function_call_output", call_id: "call_1", output: "filler" },
        ],
        max_output_tokens: 32_000,
        store: false,
      },
      { messages: [{}, {}, { parts: [{ kind: { $case: "reasoning" } }, { kind: { $case: "toolCall" } }] }, {}] },
    ],
    [
      "pi: high effort with a summary",
      {
        input: [
          { role: "developer", content: "filler" },
          { role: "user", content: inputText("filler") },
        ],
        reasoning: { effort: "high", summary: "auto" },
        max_output_tokens: 4_096,
        store: false,
        prompt_cache_key: "filler",
      },
      { reasoning: { mode: ReasoningMode.ENABLED } },
    ],
    [
      "agents: an output with a status, nothing to include",
      {
        input: [
          user,
          { type: "function_call", id: "fc_1", call_id: "call_1", name: "view", arguments: "{}", status: "completed" },
          { type: "function_call_output", call_id: "call_1", output: "filler", status: "completed" },
        ],
        include: [],
        stream: false,
      },
      { messages: [{}, {}, { role: Role.TOOL }] },
    ],
    [
      "langchain: an empty text object and a null strict",
      { text: {}, tools: [tool("view", { strict: null })], input: [{ type: "message", ...user }] },
      { outputConstraint: undefined },
    ],
  ];

  test.each(SHAPES)("%s", async (_, fields, engineSees) => {
    await expectTaken(service, RESPONSES, fields, engineSees);
  });

  test.each([
    ["none", ReasoningMode.DISABLED],
    ["minimal", ReasoningMode.ENABLED],
    ["xhigh", ReasoningMode.ENABLED],
    ["max", ReasoningMode.ENABLED],
  ])("codex and pi: reasoning.effort %s", async (effort, mode) => {
    await expectTaken(service, RESPONSES, { reasoning: { effort, summary: "auto" } }, { reasoning: { mode } });
  });
});

test.each([
  [CHAT, { type: "function", function: { name: "edit", parameters: EVERY_KEYWORD } }],
  [MESSAGES, { name: "edit", input_schema: EVERY_KEYWORD }],
  [RESPONSES, { type: "function", name: "edit", parameters: EVERY_KEYWORD }],
] as const)(
  "%s: a tool's schema with every keyword that agents use reaches the engine unchanged",
  async (path, tool) => {
    await service.reply(path, { tools: [tool] });
    expect(service.lastRequest().tools[0]?.parametersJsonSchema).toBe(JSON.stringify(EVERY_KEYWORD));
  },
);
