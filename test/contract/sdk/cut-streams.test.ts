import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

/* SDKs and a stream that breaks off, with their default settings: none takes the partial answer for a whole one. */

const service = serviceOfFile({ gateway: { continuation: { maxBytes: 0 } } }, lostMidway);

const model = "svc-qwen";
const messages = [{ role: "user" as const, content: "hi" }];
const openai = () =>
  new OpenAI({ apiKey: service.gateway.key, baseURL: `${service.gateway.baseUrl}/v1`, maxRetries: 2 });
const anthropic = () => new Anthropic({ apiKey: service.gateway.key, baseURL: service.gateway.baseUrl, maxRetries: 2 });

async function textOf<Chunk>(chunks: AsyncIterable<Chunk>): Promise<string> {
  let text = "";
  for await (const chunk of chunks) text += JSON.stringify(chunk);
  return text;
}

test.each([
  ["openai, chat, raw", async () => textOf(await openai().chat.completions.create({ model, messages, stream: true }))],
  ["openai, chat, helper", () => openai().chat.completions.stream({ model, messages }).finalChatCompletion()],
  [
    "anthropic, raw",
    async () => textOf(await anthropic().messages.create({ model, messages, max_tokens: 64, stream: true })),
  ],
  ["anthropic, helper", () => anthropic().messages.stream({ model, messages, max_tokens: 64 }).finalMessage()],
] as const)("%s throws at a cut stream, and repeats nothing", async (_, answer) => {
  const before = service.engine.backend.requests.length;
  await expect(answer()).rejects.toThrow("terminated");
  expect(service.engine.backend.requests.length - before).toBe(1);
});
