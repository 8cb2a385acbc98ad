import { expect, test } from "vitest";
import { ReasoningMode } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Modality } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { EVERY_KEYWORD, expectTaken, ONE_PATH, type Shape } from "../../support/gateway/agent-shapes.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

/*
 * Known request forms of agents and SDKs without a recording: their fields and blocks, our words.
 */

const service = serviceOfFile({ engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] } });

const RESPONSES = "/v1/responses";

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

test("a tool's schema with every keyword that agents use reaches the engine unchanged", async () => {
  await service.reply(RESPONSES, { tools: [tool("edit", { parameters: EVERY_KEYWORD })] });
  expect(service.lastRequest().tools[0]?.parametersJsonSchema).toBe(JSON.stringify(EVERY_KEYWORD));
});

test.each([
  ["none", ReasoningMode.DISABLED],
  ["minimal", ReasoningMode.ENABLED],
  ["xhigh", ReasoningMode.ENABLED],
  ["max", ReasoningMode.ENABLED],
])("codex and pi: reasoning.effort %s", async (effort, mode) => {
  await expectTaken(service, RESPONSES, { reasoning: { effort, summary: "auto" } }, { reasoning: { mode } });
});
