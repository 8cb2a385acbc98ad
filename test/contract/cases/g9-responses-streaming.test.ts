import { beforeEach, describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { checkResponses } from "../../support/checkers/legal-streams.ts";
import { framesOf } from "../../support/checkers/stream-text.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { valueAt } from "../../support/http/value-at.ts";
import { latch } from "../../support/latch.ts";

const RESPONSES = "/v1/responses";

const service = serviceOfFile({ gateway: { timeouts: { keepAliveIntervalMs: 20 } } });

const everything = () => [
  [started(), reasoningStart(0), delta(0, "I need "), delta(0, "two."), blockEnd(0)],
  [textStart(1), delta(1, "Read"), delta(1, "ing."), blockEnd(1)],
  [toolCallStart(2, "read"), delta(2, '{"path":'), delta(2, '"a.ts"}'), blockEnd(2)],
  [toolCallStart(3, "now"), blockEnd(3)],
  [finished(FinishReason.TOOL_CALLS)],
];

/** Both forms of reasoning, and none; with the types of the output. */
const VIEWS = [
  ["no reasoning", {}, "none", []],
  ["a summary", { reasoning: { summary: "auto" } }, "summary", ["reasoning"]],
  ["reasoning as it is", { include: ["reasoning.encrypted_content"] }, "text", ["reasoning"]],
] as const;

describe.each(VIEWS)("with %s", (_, fields, reasoning, shown) => {
  beforeEach(() => service.play(everything));

  test("cases 123, 124, 126 and 127: events are numbered, known and in order, and end in the items that were done", async () => {
    const sse = await service.stream(RESPONSES, fields);
    expect(sse).not.toContain("[DONE]");
    const frames = framesOf(sse);
    checkResponses(frames, { reasoning, isSealed: reasoning === "text" });
    expect(frames.at(-1)?.event).toBe("response.completed");
    const output = valueAt(frames.at(-1)?.data, "response", "output") as unknown[];
    expect(output.map((item) => valueAt(item, "type"))).toEqual([
      ...shown,
      "message",
      "function_call",
      "function_call",
    ]);
  });

  test("case 125: parallel calls follow one another, at consecutive indexes", async () => {
    const events = framesOf(await service.stream(RESPONSES, fields)).map(({ data }) => data);
    const calls = events.filter((event) => valueAt(event, "item", "type") === "function_call");
    expect(calls.map((event) => [valueAt(event, "type"), valueAt(event, "output_index")])).toEqual(
      [0, 1].flatMap((call) => [
        ["response.output_item.added", shown.length + 1 + call],
        ["response.output_item.done", shown.length + 1 + call],
      ]),
    );
  });
});

test("case 128: a lost engine ends in response.failed, without an error event", async () => {
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "half")];
    throw new EngineError("ENGINE_DOWN", "gone");
  });
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
