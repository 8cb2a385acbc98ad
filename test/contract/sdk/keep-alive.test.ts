import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { type LanguageModel, streamText } from "ai";
import Anthropic0 from "anthropic-sdk-0";
import OpenAI from "openai";
import OpenAI5 from "openai-5";
import { expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { watchedFetch } from "../../support/http/watched-fetch.ts";

const service = serviceOfFile({ gateway: { timeouts: { keepAliveIntervalMs: 20 } } });

type Options = { readonly apiKey: string; readonly baseURL: string; readonly fetch: typeof fetch };

/** Streams one answer and returns its text. */
type Read = (options: Options) => Promise<string>;

const messages = [{ role: "user" as const, content: "hi" }];

const openaiChat =
  (Sdk: typeof OpenAI): Read =>
  async (options) => {
    const client = new Sdk({ ...options, maxRetries: 0 });
    const completion = await client.chat.completions.stream({ model: "svc-qwen", messages }).finalChatCompletion();
    return completion.choices[0]?.message.content ?? "";
  };

const openaiResponses =
  (Sdk: typeof OpenAI): Read =>
  async (options) => {
    const client = new Sdk({ ...options, maxRetries: 0 });
    return (await client.responses.stream({ model: "svc-qwen", input: "hi" }).finalResponse()).output_text;
  };

const anthropic =
  (Sdk: typeof Anthropic): Read =>
  async (options) => {
    const client = new Sdk({ ...options, baseURL: options.baseURL.replace(/\/v1$/, ""), maxRetries: 0 });
    return client.messages.stream({ model: "svc-qwen", max_tokens: 16, messages }).finalText();
  };

const aiSdk =
  (model: (options: Options) => LanguageModel): Read =>
  async (options) => {
    const errors: unknown[] = [];
    const result = streamText({
      ...{ model: model(options), prompt: "hi", maxRetries: 0, maxOutputTokens: 16 },
      onError: ({ error }) => {
        errors.push(error);
      },
    });
    const text = await result.text;
    expect(errors).toEqual([]);
    return text;
  };

/** The API used here is the same in both major versions, so one type serves both. */
const READERS: readonly (readonly [string, Read])[] = [
  ["openai, chat", openaiChat(OpenAI)],
  ["openai 5, chat", openaiChat(OpenAI5 as unknown as typeof OpenAI)],
  ["openai, responses", openaiResponses(OpenAI)],
  ["openai 5, responses", openaiResponses(OpenAI5 as unknown as typeof OpenAI)],
  ["anthropic 1", anthropic(Anthropic)],
  ["anthropic 0.65", anthropic(Anthropic0 as unknown as typeof Anthropic)],
  ["ai, openai-compatible", aiSdk((options) => createOpenAICompatible({ name: "svc", ...options })("svc-qwen"))],
  ["ai, openai chat", aiSdk((options) => createOpenAI(options).chat("svc-qwen"))],
  ["ai, openai responses", aiSdk((options) => createOpenAI(options).responses("svc-qwen"))],
  ["ai, anthropic", aiSdk((options) => createAnthropic(options)("svc-qwen"))],
];

const SIGN_OF_LIFE = /: keep-alive|event: ping|event: keepalive/;

test.each(READERS)("%s continues after keep-alives, before the first event and amid the text", async (_, read) => {
  const queued = gate();
  const amid = gate();
  service.play(async function* () {
    await queued.passed;
    yield [started(), textStart(0), delta(0, "half and ")];
    await amid.passed;
    yield [delta(0, "half"), blockEnd(0), finished()];
  });
  const text = await read({
    apiKey: service.gateway.key,
    baseURL: `${service.gateway.baseUrl}/v1`,
    fetch: watchedFetch([
      { found: (seen) => SIGN_OF_LIFE.test(seen), act: queued.open },
      { found: (seen) => SIGN_OF_LIFE.test(seen.split("half and ")[1] ?? ""), act: amid.open },
    ]),
  });
  expect(text).toBe("half and half");
});
