import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Service, startService } from "../support/processes/start-service.ts";

/* The official SDKs, unmodified, with the service as a new user starts it. */

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
function expectWeatherArguments(value: unknown): void {
  expect(Object.keys(value as object).sort()).toEqual(["city", "days"]);
  const { city, days } = value as { city: unknown; days: number };
  expect(typeof city).toBe("string");
  expect(Number.isInteger(days) && days >= 1 && days <= 7).toBe(true);
}

describe("openai, chat completions", () => {
  const messages = [{ role: "user" as const, content: ASK }];
  const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: SCHEMA } }];
  const forced = { type: "function" as const, function: { name: "get_weather" } };
  const turn = [{ role: "user" as const, content: WEATHER }];

  test("text, folded and streamed", async () => {
    const folded = await openai.chat.completions.create({ model: MODEL, messages, temperature: 0 });
    expect(folded.choices[0]?.message.content).toBe(ANSWER);
    expect(folded._request_id).toMatch(/^req_/);
    const stream = openai.chat.completions.stream({ model: MODEL, messages, temperature: 0 });
    const streamed = await stream.finalChatCompletion();
    expect(streamed.choices[0]?.message.content).toBe(ANSWER);
    expect(streamed.choices[0]?.finish_reason).toBe("stop");
  });

  test("a forced tool call, folded and streamed, and the answer to its result", async () => {
    const body = { model: MODEL, messages: turn, tools, tool_choice: forced, temperature: 0 };
    const folded = await openai.chat.completions.create(body);
    const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
    for (const { choices } of [folded, streamed]) {
      const [call] = choices[0]?.message.tool_calls ?? [];
      expect(choices[0]?.finish_reason).toBe("tool_calls");
      if (call?.type !== "function") throw new Error("no function call");
      expectWeatherArguments(JSON.parse(call.function.arguments));
    }
    const message = folded.choices[0]?.message;
    if (!message?.tool_calls?.[0]) throw new Error("no tool call");
    const result = { role: "tool" as const, tool_call_id: message.tool_calls[0].id, content: '{"temperature": 23}' };
    const after = await openai.chat.completions.create({
      model: MODEL,
      messages: [...turn, message, result],
      tools,
      temperature: 0,
    });
    expect(after.choices[0]?.message.content).toContain("23");
  });

  test("JSON Schema output validates", async () => {
    const completion = await openai.chat.completions.create({
      model: MODEL,
      messages: turn,
      response_format: { type: "json_schema", json_schema: { name: "weather", schema: SCHEMA, strict: true } },
    });
    expectWeatherArguments(JSON.parse(completion.choices[0]?.message.content ?? ""));
  });

  test("models and a wrong key", async () => {
    const ids: string[] = [];
    for await (const model of openai.models.list()) ids.push(model.id);
    expect(ids).toContain("svc-glm53");
    const stranger = new OpenAI({ apiKey: "wrong", baseURL: `${service.baseUrl}/v1`, maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });
});

describe("openai, responses", () => {
  const tools = [{ type: "function" as const, name: "get_weather", parameters: SCHEMA, strict: true }];

  test("text, folded and streamed", async () => {
    const folded = await openai.responses.create({ model: "svc/qwen", input: ASK, temperature: 0 });
    expect(folded.output_text).toBe(ANSWER);
    expect(folded.model).toBe(MODEL);
    const streamed = await openai.responses.stream({ model: MODEL, input: ASK, temperature: 0 }).finalResponse();
    expect(streamed.output_text).toBe(ANSWER);
    expect(streamed.usage).toMatchObject({ output_tokens: folded.usage?.output_tokens });
  });

  test("a forced tool call, folded and streamed, and the answer to its result", async () => {
    const choice = { type: "function" as const, name: "get_weather" };
    const body = { model: MODEL, input: WEATHER, tools, tool_choice: choice, temperature: 0 };
    const folded = await openai.responses.create(body);
    const streamed = await openai.responses.stream(body).finalResponse();
    for (const { output } of [folded, streamed]) {
      const call = output.find((item) => item.type === "function_call");
      if (call?.type !== "function_call") throw new Error("no function call");
      expectWeatherArguments(JSON.parse(call.arguments));
    }
    const call = folded.output.find((item) => item.type === "function_call");
    if (!call) throw new Error("no function call");
    const after = await openai.responses.create({
      model: MODEL,
      input: [
        { role: "user", content: WEATHER },
        call,
        { type: "function_call_output", call_id: call.call_id, output: '{"temperature": 23}' },
      ],
      tools,
      temperature: 0,
    });
    expect(after.output_text).toContain("23");
  });

  test("JSON Schema output validates", async () => {
    const format = { type: "json_schema" as const, name: "weather", schema: SCHEMA, strict: true };
    const response = await openai.responses.create({ model: MODEL, input: WEATHER, text: { format } });
    expectWeatherArguments(JSON.parse(response.output_text));
  });
});

describe("anthropic, messages", () => {
  const base = { model: MODEL, max_tokens: 200, temperature: 0 };
  const tools = [{ name: "get_weather", input_schema: SCHEMA }];
  const turn = [{ role: "user" as const, content: WEATHER }];

  test("text, folded and streamed", async () => {
    const messages = [{ role: "user" as const, content: ASK }];
    const folded = await anthropic.messages.create({ ...base, messages });
    expect(folded.content).toEqual([{ type: "text", text: ANSWER }]);
    const streamed = await anthropic.messages.stream({ ...base, messages }).finalMessage();
    expect(streamed.content).toMatchObject([{ type: "text", text: ANSWER }]);
    expect(streamed.stop_reason).toBe("end_turn");
    const counted = await anthropic.messages.countTokens({ model: MODEL, messages });
    expect(streamed.usage.input_tokens + (streamed.usage.cache_read_input_tokens ?? 0)).toBe(counted.input_tokens);
  });

  test("a forced tool call, folded and streamed, and the answer to its result", async () => {
    const body = { ...base, messages: turn, tools, tool_choice: { type: "tool" as const, name: "get_weather" } };
    const folded = await anthropic.messages.create(body);
    const streamed = await anthropic.messages.stream(body).finalMessage();
    for (const { content, stop_reason } of [folded, streamed]) {
      expect(stop_reason).toBe("tool_use");
      const use = content.find((block) => block.type === "tool_use");
      expectWeatherArguments(use?.input);
    }
    const use = folded.content.find((block) => block.type === "tool_use");
    if (!use) throw new Error("no tool_use block");
    const after = await anthropic.messages.create({
      ...base,
      tools,
      messages: [
        ...turn,
        { role: "assistant", content: folded.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: '{"temperature": 23}' }] },
      ],
    });
    expect(JSON.stringify(after.content)).toContain("23");
  });

  test("thinking comes before the text, signed, streamed and folded", async () => {
    const body = {
      ...base,
      max_tokens: 400,
      thinking: { type: "enabled" as const, budget_tokens: 1024 },
      messages: [{ role: "user" as const, content: "What is 8 + 5?" }],
    };
    const folded = await anthropic.messages.create(body);
    const streamed = await anthropic.messages.stream(body).finalMessage();
    for (const { content } of [folded, streamed]) {
      expect(content.map((block) => block.type)).toEqual(["thinking", "text"]);
      expect(content[0]).toMatchObject({ signature: expect.stringMatching(/.+/) });
    }
  });

  test("JSON Schema output validates", async () => {
    const message = await anthropic.messages.create({
      ...base,
      messages: turn,
      output_config: { format: { type: "json_schema", schema: SCHEMA } },
    });
    const [block] = message.content;
    expectWeatherArguments(JSON.parse(block?.type === "text" ? block.text : ""));
  });

  test("a wrong key and a wrong request raise their classes", async () => {
    const stranger = new Anthropic({ apiKey: "wrong", baseURL: service.baseUrl, maxRetries: 0 });
    await expect(stranger.messages.create({ ...base, messages: turn })).rejects.toBeInstanceOf(
      Anthropic.AuthenticationError,
    );
    const wrong = anthropic.messages.create({ ...base, model: "claude-nothing", messages: turn });
    await expect(wrong).rejects.toBeInstanceOf(Anthropic.BadRequestError);
  });
});
