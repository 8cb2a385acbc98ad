import { expect, test } from "vitest";
import { checkResponses } from "../../support/checkers/legal-streams.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import { lostMidway } from "../../support/engine/lost-midway.ts";
import { blockEnd, delta, finished, started, textStart } from "../../support/events/events.ts";
import { transcript } from "../../support/events/transcripts.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { latch } from "../../support/latch.ts";

const RESPONSES = "/v1/responses";

const service = serviceOfFile({ gateway: { timeouts: { keepAliveIntervalMs: 20 } } });

test("cases 123, 124, 125, 126 and 127: events are numbered, known and in order, parallel calls follow one another, and the end has all items", async () => {
  service.play(transcript("reasoning_text_two_tools"));
  const response = await service.post(RESPONSES, { reasoning: { summary: "auto" }, stream: true });
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const frames = framesOf(await response.text());
  checkResponses(frames, { reasoning: "summary", isSealed: false });
  expect(frames.at(-1)?.event).toBe("response.completed");
  const output = valueAt(frames.at(-1)?.data, "response", "output") as unknown[];
  expect(output.map((item) => valueAt(item, "type"))).toEqual([
    ...["reasoning", "message", "function_call", "function_call"],
  ]);
});

test("case 128: a lost engine ends in response.failed, without an error event", async () => {
  service.play(lostMidway);
  const frames = framesOf(await service.stream(RESPONSES));
  checkResponses(frames, { reasoning: "none", isSealed: false });
  expect(frames.at(-1)?.data).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code: "server_error", message: expect.any(String) } },
  });
});

test("case 129: keepalive events bridge a silent engine, numbered like all others", async () => {
  const go = latch();
  service.play(async function* () {
    await go.passed;
    yield [started(), textStart(0), delta(0, "late"), blockEnd(0), finished()];
  });
  const body = readBody(await service.post(RESPONSES, { stream: true }));
  await body.until((text) => text.includes("event: keepalive\n"));
  go.open();
  const frames = framesOf(await body.toEnd());
  checkResponses(frames, { reasoning: "none", isSealed: false });
  expect(Object.keys(frames.find(({ event }) => event === "keepalive")?.data as object)).toEqual([
    "type",
    "sequence_number",
  ]);
  expect(valueAt(frames.at(-1)?.data, "response", "output_text")).toBe("late");
});
