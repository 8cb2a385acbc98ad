import type Anthropic from "@anthropic-ai/sdk";
import { jsonSchema, type LanguageModel, stepCountIs, streamText, type ToolSet } from "ai";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { FinishReason, type GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { Script } from "../../support/engine/scripted-backend.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textAnswer,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { AI_MODELS, anthropicOf, type ClientOptions, openaiOf, optionsOf } from "./clients.ts";

/* A turn that calls two tools, and the turn after their results: the model's output comes back unchanged. */

const twoTurns: Script = ({ messages }) => {
  if (messages.at(-1)?.role === Role.TOOL) return [textAnswer("Both read.")];
  return [
    [started(), reasoningStart(0), delta(0, "I need two files."), blockEnd(0)],
    [textStart(1), delta(1, "Reading."), blockEnd(1)],
    ...["a.ts", "b.ts"].map((path, index) => [
      toolCallStart(index + 2, "read_file", `call_${index}`),
      delta(index + 2, `{"path":"${path}"}`),
      blockEnd(index + 2),
    ]),
    [finished(FinishReason.TOOL_CALLS, { reasoningTokens: 4 })],
  ];
};

const service = serviceOfFile({}, twoTurns);

const schema = { type: "object" as const, properties: { path: { type: "string" as const } }, required: ["path"] };
const NAME = "read_file";

/** The result of a tool. */
const contentOf = (input: unknown) => `text of ${JSON.stringify(input)}`;

/** Plays both turns and returns the last text. */
type Loop = () => Promise<string>;

const openaiChat: Loop = async () => {
  const client = openaiOf(service);
  const tools = [{ type: "function" as const, function: { name: NAME, parameters: schema } }];
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hi" }];
  const create = () => client.chat.completions.create({ model: "svc-qwen", messages, tools });
  const message = (await create()).choices[0]?.message;
  if (!message) throw new Error("there is no message");
  messages.push(message);
  for (const call of message.tool_calls ?? [])
    if (call.type === "function")
      messages.push({ role: "tool", tool_call_id: call.id, content: contentOf(JSON.parse(call.function.arguments)) });
  return (await create()).choices[0]?.message.content ?? "";
};

const openaiResponses: Loop = async () => {
  const client = openaiOf(service);
  const tools = [{ type: "function" as const, name: NAME, parameters: schema, strict: false }];
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "hi" }];
  const stream = () =>
    client.responses
      .stream({ model: "svc-qwen", input, tools, store: false, include: ["reasoning.encrypted_content"] })
      .finalResponse();
  for (const item of (await stream()).output) {
    if (item.type !== "reasoning" && item.type !== "message" && item.type !== "function_call") continue;
    input.push(item);
  }
  for (const item of [...input])
    if ("arguments" in item && item.type === "function_call")
      input.push({
        type: "function_call_output",
        call_id: item.call_id,
        output: contentOf(JSON.parse(item.arguments)),
      });
  return (await stream()).output_text;
};

const anthropic =
  (thinking: Anthropic.ThinkingConfigParam): Loop =>
  async () => {
    const client = anthropicOf(service);
    const tools = [{ name: NAME, input_schema: schema }];
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: "hi" }];
    const stream = () => client.messages.stream({ model: "svc-qwen", max_tokens: 64, messages, tools, thinking });
    const { content } = await stream().finalMessage();
    messages.push({ role: "assistant", content });
    const results = content.flatMap((block) =>
      block.type === "tool_use"
        ? [{ type: "tool_result" as const, tool_use_id: block.id, content: contentOf(block.input) }]
        : [],
    );
    messages.push({ role: "user", content: results });
    return stream().finalText();
  };

const aiSdk =
  (modelOf: (options: ClientOptions) => LanguageModel, providerOptions = {}): Loop =>
  async () => {
    const errors: unknown[] = [];
    const tools: ToolSet = {
      [NAME]: { inputSchema: jsonSchema(schema), execute: (input: unknown) => contentOf(input) },
    };
    const result = streamText({
      ...{
        model: modelOf(optionsOf(service)),
        prompt: "hi",
        maxRetries: 0,
        maxOutputTokens: 64,
        tools,
        providerOptions,
      },
      stopWhen: stepCountIs(3),
      onError: ({ error }) => {
        errors.push(error);
      },
    });
    const text = await result.text;
    expect(errors).toEqual([]);
    return text;
  };

const stateless = { openai: { store: false } };
const sealed = { openai: { store: false, forceReasoning: true, include: ["reasoning.encrypted_content"] } };

/** Whether the reasoning comes back too: not every client keeps it. */
const LOOPS: readonly (readonly [name: string, loop: Loop, reasoning: boolean])[] = [
  ["openai, chat", openaiChat, true],
  ["openai, responses with sealed reasoning", openaiResponses, true],
  ["anthropic with thinking", anthropic({ type: "adaptive" }), true],
  ["anthropic with thinking that is omitted", anthropic({ type: "adaptive", display: "omitted" }), true],
  ["anthropic without thinking", anthropic({ type: "disabled" }), false],
  ["ai, openai-compatible", aiSdk(AI_MODELS["openai-compatible"]), true],
  ["ai, openai chat", aiSdk(AI_MODELS["openai, chat"]), false],
  ["ai, openai responses", aiSdk(AI_MODELS["openai, responses"], stateless), false],
  ["ai, openai responses with sealed reasoning", aiSdk(AI_MODELS["openai, responses"], sealed), true],
  ["ai, anthropic", aiSdk(AI_MODELS.anthropic), true],
];

/** The conversation as text. */
function spoken({ messages }: GenerateRequest): unknown[] {
  return messages.map(({ role, parts }) => [
    role,
    ...parts.map(({ kind }) => {
      if (kind?.$case === "toolCall") return `${kind.value.name} ${kind.value.argumentsJson}`;
      if (kind?.$case === "toolResult") return `${kind.value.name} gave ${spokenText(kind.value.content)}`;
      return kind?.$case === "text" || kind?.$case === "reasoning" ? kind.value.text : kind?.$case;
    }),
  ]);
}

function spokenText(parts: GenerateRequest["messages"][number]["parts"]): string {
  return parts.map(({ kind }) => (kind?.$case === "text" ? kind.value.text : "")).join("");
}

test.each(LOOPS)("%s: both turns come back unchanged", async (_, loop, reasoning) => {
  expect(await loop()).toBe("Both read.");
  const inputs = [{ path: "a.ts" }, { path: "b.ts" }];
  expect(spoken(service.lastRequest())).toEqual([
    [Role.USER, "hi"],
    [
      Role.ASSISTANT,
      ...(reasoning ? ["I need two files."] : []),
      "Reading.",
      ...inputs.map((input) => `${NAME} ${JSON.stringify(input)}`),
    ],
    ...inputs.map((input) => [Role.TOOL, `${NAME} gave ${contentOf(input)}`]),
  ]);
});

test("ai, openai responses, with default settings: its reference to unstored text fails with the setting to change", async () => {
  const errors: unknown[] = [];
  const tools: ToolSet = { [NAME]: { inputSchema: jsonSchema(schema), execute: (input: unknown) => contentOf(input) } };
  const result = streamText({
    model: AI_MODELS["openai, responses"](optionsOf(service)),
    ...{ prompt: "hi", maxRetries: 0, tools, stopWhen: stepCountIs(3) },
    onError: ({ error }) => {
      errors.push(error);
    },
  });
  await result.consumeStream();
  expect(errors).toMatchObject([
    { statusCode: 400, message: expect.stringMatching(/item_reference.*'store' to false/) },
  ]);
});
