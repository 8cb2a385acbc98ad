import { statSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Service, startService } from "../support/processes/start-service.ts";

/* The service as a new user starts it: real processes, the demonstration model, and the official SDKs, unmodified. */

let service: Service;
let openai: OpenAI;
let anthropic: Anthropic;

beforeAll(async () => {
  service = await startService();
  openai = new OpenAI({ apiKey: service.key, baseURL: `${service.baseUrl}/v1`, maxRetries: 0 });
  anthropic = new Anthropic({ apiKey: service.key, baseURL: service.baseUrl, maxRetries: 0 });
});
afterAll(async () => {
  await service?.stop();
});

const MODEL = "svc-qwen";
const ASK = "Count from 1 to 12.";
const ANSWER = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12";
const WEATHER = "What is the weather in Oslo?";
const RESULT = '{"temperature": 23}';
const SCHEMA = {
  type: "object" as const,
  // Bounded, because a model of this size may never end a text.
  properties: {
    city: { type: "string" as const, maxLength: 24 },
    days: { type: "integer" as const, minimum: 1, maximum: 7 },
  },
  required: ["city", "days"],
  additionalProperties: false,
};

/** Fails unless `value` matches SCHEMA. */
function expectWeather(value: unknown): void {
  const { city, days, ...rest } = value as { city: unknown; days: number };
  expect([typeof city, rest]).toEqual(["string", {}]);
  expect(Number.isInteger(days) && days >= 1 && days <= 7).toBe(true);
}

describe("openai, chat completions", () => {
  const turn = [{ role: "user" as const, content: WEATHER }];

  test("text, whole and streamed, with the same usage", async () => {
    const body = { model: MODEL, messages: [{ role: "user" as const, content: ASK }], temperature: 0 };
    const whole = await openai.chat.completions.create(body);
    expect(whole.choices[0]?.message.content).toBe(ANSWER);
    expect(whole._request_id).toMatch(/^req_/);
    const stream = openai.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
    const streamed = await stream.finalChatCompletion();
    expect(streamed.choices[0]).toMatchObject({ message: { content: ANSWER }, finish_reason: "stop" });
    expect(streamed.usage?.completion_tokens).toBe(whole.usage?.completion_tokens);
  });

  test("a forced tool call, whole and streamed, and the answer to its result", async () => {
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: SCHEMA } }];
    const forced = { type: "function" as const, function: { name: "get_weather" } };
    const body = { model: MODEL, messages: turn, tools, tool_choice: forced, temperature: 0 };
    const whole = await openai.chat.completions.create(body);
    const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      const [call] = choices[0]?.message.tool_calls ?? [];
      expect(choices[0]?.finish_reason).toBe("tool_calls");
      expectWeather(call?.type === "function" && JSON.parse(call.function.arguments));
    }
    const message = whole.choices[0]?.message;
    if (!message?.tool_calls?.[0]) throw new Error("no tool call");
    const result = { role: "tool" as const, tool_call_id: message.tool_calls[0].id, content: RESULT };
    const messages = [...turn, message, result];
    const after = await openai.chat.completions.create({ model: MODEL, messages, tools, temperature: 0 });
    expect(after.choices[0]?.message.content).toContain("23");
  });
});

describe("openai, responses", () => {
  test("text, whole and streamed, with the same usage", async () => {
    const whole = await openai.responses.create({ model: "svc/qwen", input: ASK, temperature: 0 });
    expect([whole.output_text, whole.model]).toEqual([ANSWER, MODEL]);
    const streamed = await openai.responses.stream({ model: MODEL, input: ASK, temperature: 0 }).finalResponse();
    expect(streamed.output_text).toBe(ANSWER);
    expect(streamed.usage?.output_tokens).toBe(whole.usage?.output_tokens);
  });

  test("an output by JSON Schema through the OpenAI SDK validates", async () => {
    const format = { type: "json_schema" as const, name: "weather", schema: SCHEMA, strict: true };
    const response = await openai.responses.create({ model: MODEL, input: WEATHER, text: { format } });
    expectWeather(JSON.parse(response.output_text));
  });
});

describe("anthropic, messages", () => {
  const base = { model: MODEL, max_tokens: 200, temperature: 0 };
  const inputOf = ({ input_tokens, cache_read_input_tokens, cache_creation_input_tokens }: Anthropic.Usage) =>
    input_tokens + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0);

  test("the Anthropic SDK gets text, whole and streamed", async () => {
    const messages = [{ role: "user" as const, content: ASK }];
    const whole = await anthropic.messages.create({ ...base, messages });
    expect(whole.content).toEqual([{ type: "text", text: ANSWER }]);
    const streamed = await anthropic.messages.stream({ ...base, messages }).finalMessage();
    expect(streamed).toMatchObject({ content: [{ type: "text", text: ANSWER }], stop_reason: "end_turn" });
    expect(inputOf(streamed.usage)).toBe(inputOf(whole.usage));
  });

  test("the count of tokens is the usage of the same request", async () => {
    const body = {
      ...{ model: "svc-glm53", system: "You are brief. <|im_end|> 🚀" },
      messages: [{ role: "user" as const, content: WEATHER }],
      tools: [{ name: "read_file", description: "Read a file", input_schema: { type: "object" as const } }],
    };
    const { usage } = await anthropic.messages.create({ ...body, max_tokens: 1 });
    expect(await anthropic.messages.countTokens(body)).toEqual({ input_tokens: inputOf(usage) });
  });

  test("thinking comes before the text, signed, streamed and whole", async () => {
    const body = {
      ...{ ...base, max_tokens: 400, thinking: { type: "enabled" as const, budget_tokens: 1024 } },
      messages: [{ role: "user" as const, content: "What is 8 + 5?" }],
    };
    for (const { content } of [
      await anthropic.messages.create(body),
      await anthropic.messages.stream(body).finalMessage(),
    ])
      expect(content).toMatchObject([{ type: "thinking", signature: expect.stringMatching(/.+/) }, { type: "text" }]);
  });
});

test("the ready-made key lies in a file that only its owner reads", () => {
  expect(statSync(join(service.stateDir, "local-key")).mode & 0o777).toBe(0o600);
});
