import type Anthropic from "@anthropic-ai/sdk";
import { type LanguageModel, streamText } from "ai";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { watchedFetch } from "../../support/http/watched-fetch.ts";
import { latch } from "../../support/latch.ts";
import { AI_MODELS, ANTHROPIC, type ClientOptions, OPENAI, optionsOf } from "./clients.ts";

const service = serviceOfFile({ gateway: { timeouts: { keepAliveIntervalMs: 20 } } });

/** Streams one answer and returns its text. */
type Read = (options: ClientOptions) => Promise<string>;

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
  (model: (options: ClientOptions) => LanguageModel): Read =>
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

const READERS: readonly (readonly [string, Read])[] = [
  ...OPENAI.map(([name, Sdk]) => [`${name}, chat`, openaiChat(Sdk)] as const),
  ...OPENAI.map(([name, Sdk]) => [`${name}, responses`, openaiResponses(Sdk)] as const),
  ...ANTHROPIC.map(([name, Sdk]) => [name, anthropic(Sdk)] as const),
  ...Object.entries(AI_MODELS).map(([name, modelOf]) => [`ai, ${name}`, aiSdk(modelOf)] as const),
];

const SIGN_OF_LIFE = /: keep-alive|event: ping|event: keepalive/;

test.each(READERS)("%s continues after keep-alives, before the first event and amid the text", async (_, read) => {
  const queued = latch();
  const amid = latch();
  service.play(async function* () {
    await queued.passed;
    yield [started(), textStart(0), delta(0, "half and ")];
    await amid.passed;
    yield [delta(0, "half"), blockEnd(0), finished()];
  });
  const text = await read({
    ...optionsOf(service),
    fetch: watchedFetch([
      { found: (seen) => SIGN_OF_LIFE.test(seen), act: queued.open },
      { found: (seen) => SIGN_OF_LIFE.test(seen.split("half and ")[1] ?? ""), act: amid.open },
    ]),
  });
  expect(text).toBe("half and half");
});
