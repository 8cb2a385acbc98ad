import { expect, test } from "vitest";
import { modelWrites } from "../../support/engine/model-writes.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";

/* What clients say and ask of the prompt cache. */

const service = serviceOfFile({}, modelWrites("An", " answer."));
const prewarm = { prompt_cache_options: { prewarm: true, ttl: "12h" } };

test("a chat prompt is read into the cache without an answer", async () => {
  const path = "/v1/chat/completions";
  expect(await service.reply(path, prewarm)).toMatchObject({
    choices: [{ message: { content: "" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 12, completion_tokens: 0 },
  });
  const stream = await service.stream(path, { ...prewarm, stream_options: { include_usage: true } });
  expect(stream).toContain('"finish_reason":"stop"');
  expect(stream).toContain('"completion_tokens":0');
});

test("a prompt of responses is read into the cache without an answer", async () => {
  const path = "/v1/responses";
  const empty = { status: "completed", output: [], output_text: "", usage: { input_tokens: 12, output_tokens: 0 } };
  expect(await service.reply(path, prewarm)).toMatchObject(empty);
  const stream = await service.stream(path, prewarm);
  expect([...stream.matchAll(/^event: (\S+)$/gm)].map(([, type]) => type)).toEqual([
    "response.created",
    "response.in_progress",
    "response.completed",
  ]);
});
