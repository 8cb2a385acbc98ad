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

const CHAT = "/v1/chat/completions";

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

test("a tool's schema with every keyword that agents use reaches the engine unchanged", async () => {
  await service.reply(CHAT, { tools: [tool("edit", { parameters: EVERY_KEYWORD })] });
  expect(service.lastRequest().tools[0]?.parametersJsonSchema).toBe(JSON.stringify(EVERY_KEYWORD));
});
