import { expect, test } from "vitest";
import { ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { EVERY_KEYWORD, expectTaken, ONE_PATH, type Shape } from "../../support/gateway/agent-shapes.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

/*
 * Known request forms of agents and SDKs without a recording: their fields and blocks, our words.
 */

const service = serviceOfFile({ engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] } });

const MESSAGES = "/v1/messages";
const COUNT = "/v1/messages/count_tokens";

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
      tools: [tool("view", { eager_input_streaming: true }), tool("bash", { eager_input_streaming: true, ...cached })],
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

test("a tool's schema with every keyword that agents use reaches the engine unchanged", async () => {
  await service.reply(MESSAGES, { tools: [tool("edit", { input_schema: EVERY_KEYWORD })] });
  expect(service.lastRequest().tools[0]?.parametersJsonSchema).toBe(JSON.stringify(EVERY_KEYWORD));
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
