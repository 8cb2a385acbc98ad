import { beforeEach, describe, expect, test } from "vitest";
import { EngineError } from "../../../engine/errors.ts";
import { FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../support/events/events.ts";
import { gate } from "../../support/gate.ts";
import { serviceOfFile } from "../../support/gateway/scripted-service.ts";
import { readBody } from "../../support/http/read-until.ts";
import { type ResponseEvent, responseEvents, typesOf } from "../../support/http/response-events.ts";
import { valueAt } from "../../support/http/value-at.ts";

const RESPONSES = "/v1/responses";

const service = serviceOfFile({ gateway: { timeouts: { keepAliveIntervalMs: 20 } } });

const everything = () => [
  [started(), reasoningStart(0), delta(0, "I need "), delta(0, "two."), blockEnd(0)],
  [textStart(1), delta(1, "Read"), delta(1, "ing."), blockEnd(1)],
  [toolCallStart(2, "read"), delta(2, '{"path":'), delta(2, '"a.ts"}'), blockEnd(2)],
  [toolCallStart(3, "now"), blockEnd(3)],
  [finished(FinishReason.TOOL_CALLS)],
];

async function eventsOf(fields: object = {}): Promise<ResponseEvent[]> {
  return responseEvents(await service.stream(RESPONSES, fields));
}

/** Both forms of reasoning, and none. */
const VIEWS = [
  ["no reasoning", {}],
  ["a summary", { reasoning: { summary: "auto" } }],
  ["reasoning as it is", { include: ["reasoning.encrypted_content"] }],
] as const;

const at = (event: ResponseEvent | undefined, ...path: (string | number)[]) => valueAt(event?.data, ...path);

const TEXT = [
  "response.output_item.added",
  "response.content_part.added",
  "response.output_text.delta",
  "response.output_text.delta",
  "response.output_text.done",
  "response.content_part.done",
  "response.output_item.done",
];
const CALL = [
  "response.output_item.added",
  "response.function_call_arguments.delta",
  "response.function_call_arguments.delta",
  "response.function_call_arguments.done",
  "response.output_item.done",
];
const SUMMARY = [
  "response.output_item.added",
  "response.reasoning_summary_part.added",
  "response.reasoning_summary_text.delta",
  "response.reasoning_summary_text.delta",
  "response.reasoning_summary_text.done",
  "response.reasoning_summary_part.done",
  "response.output_item.done",
];
const RAW = [
  "response.output_item.added",
  "response.content_part.added",
  "response.reasoning_text.delta",
  "response.reasoning_text.delta",
  "response.reasoning_text.done",
  "response.content_part.done",
  "response.output_item.done",
];
const KNOWN = new Set([
  ...["created", "in_progress", "completed", "incomplete", "failed"].map((name) => `response.${name}`),
  ...[...TEXT, ...CALL, ...SUMMARY, ...RAW],
  "keepalive",
]);

describe.each(VIEWS)("with %s", (_, fields) => {
  beforeEach(() => service.play(everything));

  test("case 123: created and in_progress first, dense numbers, one terminal event at the end", async () => {
    const sse = await service.stream(RESPONSES, fields);
    expect(sse).not.toContain("[DONE]");
    const events = responseEvents(sse);
    expect(events.map((event) => at(event, "sequence_number"))).toEqual(events.map((_event, index) => index));
    const types = typesOf(events);
    expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(types.filter((type) => /^response\.(completed|incomplete|failed)$/.test(type))).toEqual([
      "response.completed",
    ]);
    expect(types.at(-1)).toBe("response.completed");
    for (const event of events.slice(0, 2)) expect(at(event, "response", "status")).toBe("in_progress");
  });

  test("case 125: parallel calls follow one another, at consecutive indexes", async () => {
    const events = await eventsOf(fields);
    const calls = events.filter(({ data }) => valueAt(data, "item", "type") === "function_call");
    expect(calls.map(({ type }) => type)).toEqual([
      "response.output_item.added",
      "response.output_item.done",
      "response.output_item.added",
      "response.output_item.done",
    ]);
    const ids = calls.flatMap((event) => [at(event, "item", "id"), at(event, "item", "call_id")]);
    expect(new Set(ids).size).toBe(4);
    const [first, , second] = calls.map((event) => Number(at(event, "output_index")));
    expect(second).toBe((first ?? Number.NaN) + 1);
    const done = events.findIndex(({ type }) => type === "response.function_call_arguments.done");
    const next = events.findIndex(({ data }) => data === calls[2]?.data);
    expect(done).toBeGreaterThan(0);
    expect(done).toBeLessThan(next);
  });

  test("case 126: only events that every client supports", async () => {
    for (const { type } of await eventsOf(fields)) expect(KNOWN).toContain(type);
  });

  test("case 127: the final output has the items that were done", async () => {
    const events = await eventsOf(fields);
    const done = events.filter(({ type }) => type === "response.output_item.done");
    expect(at(events.at(-1), "response", "output")).toEqual(done.map((event) => at(event, "item")));
  });
});

describe("case 124: the order inside items", () => {
  beforeEach(() => service.play(everything));

  /** The events of the item at that index of the output, and their ids. */
  async function itemEvents(fields: object, index: number) {
    const events = (await eventsOf(fields)).filter((event) => at(event, "output_index") === index);
    const ids = new Set(events.map((event) => at(event, "item_id") ?? at(event, "item", "id")));
    const contents = new Set(events.map((event) => at(event, "content_index")).filter((place) => place !== undefined));
    return { types: typesOf(events), ids: [...ids], contents: [...contents] };
  }

  test.each([
    ["case 124a: text", {}, 0, TEXT, /^msg_/, [0]],
    ["case 124b: reasoning as a summary", { reasoning: { summary: "auto" } }, 0, SUMMARY, /^rs_/, []],
    ["case 124c: reasoning as it is", { include: ["reasoning.encrypted_content"] }, 0, RAW, /^rs_/, [0]],
    ["case 124d: text behind reasoning", { reasoning: { summary: "auto" } }, 1, TEXT, /^msg_/, [0]],
    ["case 124e: a call", {}, 1, CALL, /^fc_/, []],
  ] as const)("%s", async (_, fields, index, types, id, contents) => {
    const item = await itemEvents(fields, index);
    expect(item).toEqual({ types, ids: [expect.stringMatching(id)], contents });
  });
});

test("case 128: a lost engine ends in response.failed, without an error event", async () => {
  service.play(async function* () {
    yield [started(), textStart(0), delta(0, "half")];
    throw new EngineError("ENGINE_DOWN", "gone");
  });
  const events = await eventsOf();
  expect(events.at(-1)).toMatchObject({
    type: "response.failed",
    data: { response: { status: "failed", error: { code: "server_error", message: expect.any(String) } } },
  });
  expect(typesOf(events)).not.toContain("error");
  expect(events.map((event) => at(event, "sequence_number"))).toEqual(events.map((_, index) => index));
});

test("case 129: keepalive events bridge a silent engine, numbered like all others", async () => {
  const go = gate();
  service.play(async function* () {
    await go.passed;
    yield [started(), textStart(0), delta(0, "late"), blockEnd(0), finished()];
  });
  const body = readBody(await service.post(RESPONSES, { stream: true }));
  await body.until((text) => text.includes("event: keepalive\n"));
  go.open();
  const events = responseEvents(await body.toEnd());
  expect(events.map((event) => at(event, "sequence_number"))).toEqual(events.map((_, index) => index));
  expect(events.find(({ type }) => type === "keepalive")?.data).toEqual({
    type: "keepalive",
    sequence_number: expect.any(Number),
  });
  expect(at(events.at(-1), "response", "output_text")).toBe("late");
});
