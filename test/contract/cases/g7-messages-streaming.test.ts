import Anthropic from "@anthropic-ai/sdk";
import { expect, test } from "vitest";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { checkMessages } from "../../support/checkers/legal-streams.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { blockEnd, delta, finished, started, textStart, toolCallStart } from "../../support/events/events.ts";
import { transcript } from "../../support/events/transcripts.ts";
import { ERROR_FRAMES, serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { parseSse } from "../../support/http/sse-reader.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { latch } from "../../support/latch.ts";

const MESSAGES = "/v1/messages";

const service = serviceOfFile({
  gateway: { formats: ERROR_FRAMES, timeouts: { keepAliveIntervalMs: 20 } },
});

test("cases 97, 99 and 104: events are in order and named by their type, indexes dense, and thinking signed at its end", async () => {
  service.play(transcript("reasoning_text_two_tools"));
  const response = await service.post(MESSAGES, { stream: true });
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const text = await response.text();
  checkMessages(framesOf(text), "shown");
  expect(text.match(/"content_block":\{"type":"\w+"/g)).toHaveLength(4);
  expect(text).toMatch(/"type":"signature_delta","signature":"[A-Za-z0-9+/=_-]+"/);
  expect(text).not.toContain("[DONE]");
});

test("case 98: usage is in the first and the last event, the last one as in the folded reply", async () => {
  service.play(transcript("reasoning_then_text"));
  const folded = valueAt(await service.reply(MESSAGES), "usage");
  const events = parseSse(await service.stream(MESSAGES)).map(({ data }) => data);
  expect(valueAt(events[0], "message", "usage")).toMatchObject({ input_tokens: 8, cache_read_input_tokens: 32 });
  expect(folded).toMatchObject(valueAt(events.at(-2), "usage") as object);
});

test("case 100: a tool call without arguments has an empty input in the SDK", async () => {
  service.play(() => [[started(), toolCallStart(0, "now"), blockEnd(0), finished(FinishReason.TOOL_CALLS)]]);
  const { key: apiKey, baseUrl: baseURL } = service.gateway;
  const stream = new Anthropic({ apiKey, baseURL, maxRetries: 0 }).messages.stream({
    ...{ model: "svc-qwen", max_tokens: 64, messages: [{ role: "user", content: "hi" }] },
  });
  expect((await stream.finalMessage()).content).toMatchObject([{ type: "tool_use", name: "now", input: {} }]);
});

test("case 101: pings bridge a silent engine", async () => {
  const go = latch();
  service.play(async function* () {
    yield [started()];
    await go.passed;
    yield [textStart(0), delta(0, "late"), blockEnd(0), finished()];
  });
  const body = readBody(await service.post(MESSAGES, { stream: true }));
  await body.until((text) => text.includes('event: ping\ndata: {"type":"ping"}\n\n'));
  go.open();
  expect(await body.toEnd()).toContain("event: message_stop");
});

test("case 102: a lost engine ends the stream in an error without message_stop", async () => {
  service.play(lostMidway);
  const response = await service.post(MESSAGES, { stream: true });
  const events = parseSse(await response.text());
  expect(events.at(-1)).toEqual({
    event: "error",
    data: {
      type: "error",
      error: { type: "api_error", message: expect.any(String) },
      request_id: response.headers.get("request-id"),
    },
  });
  expect(events.map(({ event }) => event)).not.toContain("message_stop");
});
