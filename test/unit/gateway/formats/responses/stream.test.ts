import { describe, expect, test } from "vitest";
import { ApiError, type ErrorCode, engineLost } from "../../../../../gateway/errors.ts";
import { CompletionFold } from "../../../../../gateway/formats/completion.ts";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import {
  answer,
  type Block,
  blockEnded,
  blockStarted,
  call,
  cut,
  delta,
  finished,
  reasoning,
  started,
  text,
} from "./engine-events.ts";
import { head, prepare } from "./prepared-request.ts";
import { fieldOf, type SseEvent, sseEvents } from "./sse-events.ts";

const summary = { reasoning: { summary: "auto" } };
const sealed = { include: ["reasoning.encrypted_content"] };
const lost = engineLost("upstream_reset");

function encode(events: readonly Event[], extra: object = {}): readonly SseEvent[] {
  const encoder = prepare({ stream: true, ...extra }).encoder(head);
  return sseEvents(events.map((event) => encoder.next(event)).join(""));
}

/** Types in order, without the common prefix. */
function types(events: readonly SseEvent[]): readonly string[] {
  return events.map(({ type }) => type.replace("response.", ""));
}

describe("the order of events", () => {
  test("of a text", () => {
    expect(types(encode(answer([text("a", "b")])))).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "completed",
    ]);
  });

  test("of reasoning as a summary", () => {
    expect(types(encode(answer([reasoning("a")]), summary)).slice(2, -1)).toEqual([
      "output_item.added",
      "reasoning_summary_part.added",
      "reasoning_summary_text.delta",
      "reasoning_summary_text.done",
      "reasoning_summary_part.done",
      "output_item.done",
    ]);
  });

  test("of reasoning as text", () => {
    const events = encode(answer([reasoning("a")]), sealed);
    expect(types(events).slice(2, -1)).toEqual([
      "output_item.added",
      "content_part.added",
      "reasoning_text.delta",
      "reasoning_text.done",
      "content_part.done",
      "output_item.done",
    ]);
    expect(fieldOf(events[2], "item")).toMatchObject({ status: "in_progress", summary: [], content: [] });
    expect(fieldOf(events[3], "part")).toEqual({ type: "reasoning_text", text: "" });
  });

  test("of parallel calls, one after the other", () => {
    const events = encode(answer([call("c1", "f", "{", "}"), call("c2", "g", "{}")])).slice(2, -1);
    expect(types(events)).toEqual([
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
    ]);
    expect(events.map((event) => event.output_index)).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1]);
  });
});

describe("the fields of events", () => {
  test("of a text item", () => {
    const place = { item_id: "msg_abcdefghijklmnopqrstuvwx_0", output_index: 0, content_index: 0 };
    const part = { type: "output_text", text: 'say "hi"\n\u2028', annotations: [], logprobs: [] };
    const item = { id: place.item_id, type: "message", role: "assistant" };
    expect(encode(answer([text('say "hi"\n\u2028')])).slice(2, -1)).toEqual([
      {
        type: "response.output_item.added",
        sequence_number: 2,
        output_index: 0,
        item: { ...item, status: "in_progress", content: [] },
      },
      { type: "response.content_part.added", sequence_number: 3, ...place, part: { ...part, text: "" } },
      { type: "response.output_text.delta", sequence_number: 4, ...place, delta: part.text, logprobs: [] },
      { type: "response.output_text.done", sequence_number: 5, ...place, text: part.text, logprobs: [] },
      { type: "response.content_part.done", sequence_number: 6, ...place, part },
      {
        type: "response.output_item.done",
        sequence_number: 7,
        output_index: 0,
        item: { ...item, status: "completed", content: [part] },
      },
    ]);
  });

  test("of a call of a namespaced tool", () => {
    const tools = [{ type: "namespace", name: "fs", tools: [{ type: "function", name: "read" }] }];
    const place = { item_id: "fc_abcdefghijklmnopqrstuvwx_0", output_index: 0 };
    const item = { id: place.item_id, type: "function_call", call_id: "call_c", namespace: "fs", name: "read" };
    expect(encode(answer([call("c", "fs__read", "{}")]), { tools }).slice(2, -1)).toEqual([
      {
        type: "response.output_item.added",
        sequence_number: 2,
        output_index: 0,
        item: { ...item, status: "in_progress", arguments: "" },
      },
      { type: "response.function_call_arguments.delta", sequence_number: 3, ...place, delta: "{}" },
      { type: "response.function_call_arguments.done", sequence_number: 4, ...place, name: "read", arguments: "{}" },
      {
        type: "response.output_item.done",
        sequence_number: 5,
        output_index: 0,
        item: { ...item, status: "completed", arguments: "{}" },
      },
    ]);
  });

  test("of a summary", () => {
    const place = { item_id: "rs_abcdefghijklmnopqrstuvwx_0", output_index: 0, summary_index: 0 };
    expect(encode(answer([reasoning("r")]), summary).slice(3, 7)).toEqual([
      {
        type: "response.reasoning_summary_part.added",
        sequence_number: 3,
        ...place,
        part: { type: "summary_text", text: "" },
      },
      { type: "response.reasoning_summary_text.delta", sequence_number: 4, ...place, delta: "r" },
      { type: "response.reasoning_summary_text.done", sequence_number: 5, ...place, text: "r" },
      {
        type: "response.reasoning_summary_part.done",
        sequence_number: 6,
        ...place,
        part: { type: "summary_text", text: "r" },
      },
    ]);
  });

  test("logprobs come with each delta when requested", () => {
    const logprobs = [{ token: "a", tokenBytes: Buffer.from("a"), logprob: -1, alternatives: [] }];
    const events = [started, blockStarted(0, text()), delta(0, "a", logprobs), blockEnded(0), finished()];
    const shown = [{ token: "a", bytes: [97], logprob: -1, top_logprobs: [] }];
    const asked = encode(events, { include: ["message.output_text.logprobs"] });
    expect(asked.slice(4, 6).map((event) => event.logprobs)).toEqual([shown, shown]);
    expect(encode(events)[4]?.logprobs).toEqual([]);
  });

  test("a call without arguments gets them as a delta", () => {
    const events = encode(answer([call("c", "f")]));
    expect(types(events).slice(3, 5)).toEqual(["function_call_arguments.delta", "function_call_arguments.done"]);
    expect([events[3]?.delta, events[4]?.arguments]).toEqual(["{}", "{}"]);
  });

  test("the response is in progress and empty at the start", () => {
    for (const event of encode([started])) {
      const response = fieldOf(event, "response");
      expect(response).toMatchObject({ status: "in_progress", output: [], usage: null, completed_at: null });
      expect(response).not.toHaveProperty("output_text");
    }
  });
});

describe("events that are not shown", () => {
  test("progress, unknown ones, a repeated start, and all after the end", () => {
    const encoder = prepare().encoder(head);
    expect(sseEvents(encoder.next(started))).toHaveLength(2);
    const progress: Event = { kind: { $case: "progress", value: { queuePosition: 1, prefilledTokens: 0, step: 0 } } };
    expect([progress, { kind: undefined }, started].map((event) => encoder.next(event))).toEqual(["", "", ""]);
    expect(sseEvents(encoder.next(finished()))).toHaveLength(1);
    expect(
      [...answer([text("a")]).map((event) => encoder.next(event)), encoder.fail(lost), encoder.keepAlive()].join(""),
    ).toBe("");
  });

  test("hidden reasoning leaves the output indices dense", () => {
    const events = encode(answer([reasoning("a"), text("b"), reasoning("c"), call("d", "f", "{}")]));
    const added = events.filter(({ type }) => type === "response.output_item.added");
    expect(added.map((event) => event.output_index)).toEqual([0, 1]);
    expect(JSON.stringify(events)).not.toContain("reasoning_text");
  });
});

describe("keep-alives", () => {
  test("count in the sequence and never precede the response", () => {
    const encoder = prepare().encoder(head);
    const stream = [encoder.keepAlive(), encoder.next(started), encoder.keepAlive(), encoder.next(finished())].join("");
    expect(sseEvents(stream).map(({ type, sequence_number }) => [type, sequence_number])).toEqual([
      ["response.created", 0],
      ["response.in_progress", 1],
      ["keepalive", 2],
      ["keepalive", 3],
      ["response.completed", 4],
    ]);
  });
});

describe("failure", () => {
  test("before any output is a whole stream of its own", () => {
    const events = sseEvents(prepare().encoder(head).fail(lost));
    expect(types(events)).toEqual(["created", "in_progress", "failed"]);
    expect(fieldOf(events[2], "response")).toMatchObject({
      status: "failed",
      error: { code: "server_error", message: lost.message },
      output: [],
      usage: null,
      incomplete_details: null,
    });
  });

  test("inside an item keeps the finished items, marks the rest and closes nothing", () => {
    const encoder = prepare().encoder(head);
    const before = [started, ...answer([text("a")]).slice(1, 4), blockStarted(1, call("c", "f")), delta(1, '{"p')];
    sseEvents(before.map((event) => encoder.next(event)).join(""));
    const failed = sseEvents(encoder.fail(lost));
    expect(types(failed)).toEqual(["failed"]);
    expect(fieldOf(failed[0], "response")).toMatchObject({
      output: [
        { type: "message", status: "completed" },
        { type: "function_call", status: "incomplete", call_id: "call_c", arguments: '{"p' },
      ],
      output_text: "a",
    });
  });

  test.each<[ErrorCode, string]>([
    ["context_length_exceeded", "context_length_exceeded"],
    ["rate_limit_exceeded", "rate_limit_exceeded"],
    ["server_is_overloaded", "server_error"],
    ["upstream_error", "server_error"],
    ["timeout", "server_error"],
    ["server_error", "server_error"],
  ])("%s is told as %s", (code, told) => {
    const events = sseEvents(
      prepare()
        .encoder(head)
        .fail(new ApiError(code, { a: "words for A", b: "words for B" })),
    );
    expect(fieldOf(events[2], "response").error).toEqual({ code: told, message: "words for A" });
  });
});

/** Event types of "Events of responses" in formats/README.md; clients throw on any other. */
const ALLOWED = new Set([
  "response.created",
  "response.in_progress",
  "response.output_item.added",
  "response.output_item.done",
  "response.content_part.added",
  "response.content_part.done",
  "response.output_text.delta",
  "response.output_text.done",
  "response.function_call_arguments.delta",
  "response.function_call_arguments.done",
  "response.reasoning_summary_part.added",
  "response.reasoning_summary_part.done",
  "response.reasoning_summary_text.delta",
  "response.reasoning_summary_text.done",
  "response.reasoning_text.delta",
  "response.reasoning_text.done",
  "keepalive",
  "response.completed",
  "response.incomplete",
  "response.failed",
]);

const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** Every answer of up to `length` blocks with 0 to 2 deltas each. */
function answers(length: number): readonly (readonly Block[])[] {
  if (length === 0) return [[]];
  const shorter = answers(length - 1);
  const blocks = [[], ["x"], ["x", "y"]].flatMap((deltas) => [
    text(...deltas),
    reasoning(...deltas),
    call("c", "f", ...deltas),
  ]);
  const longest = shorter.filter((answer) => answer.length === length - 1);
  return [...shorter, ...longest.flatMap((answer) => blocks.map((block) => [...answer, block]))];
}

describe.each([
  ["nothing asked for", {}],
  ["summaries", summary],
  ["sealed reasoning", sealed],
])("every legal answer, with %s", (_, extra) => {
  const all = answers(3);

  test("ends in one terminal event, with dense sequence numbers and known types", () => {
    for (const blocks of all) {
      const events = encode(answer(blocks), extra);
      expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
      expect(events.filter(({ type }) => !ALLOWED.has(type))).toEqual([]);
      expect(events.findIndex(({ type }) => TERMINAL.has(type))).toBe(events.length - 1);
    }
  });

  test("has the announced items as its final output, and the folded reply as its final object", () => {
    for (const blocks of all)
      for (const reason of [FinishReason.STOP, FinishReason.MAX_OUTPUT_TOKENS]) {
        const last = blocks.at(-1);
        const ending = reason === FinishReason.STOP || !last ? blocks : [...blocks.slice(0, -1), cut(last)];
        const events = encode(answer(ending, reason), extra);
        const final = fieldOf(events.at(-1), "response");
        const done = events.filter(({ type }) => type === "response.output_item.done").map((event) => event.item);
        expect(final.output).toEqual(done);
        const fold = new CompletionFold();
        for (const event of answer(ending, reason)) fold.next(event);
        expect(final).toEqual(JSON.parse(JSON.stringify(prepare(extra).reply(head, fold.result()))));
      }
  });

  test("may break after any event, and the failed response still has every item announced", () => {
    const events = answer([reasoning("r"), text("a", "b"), call("c", "f", "{}")]);
    for (const [index] of events.slice(0, -1).entries()) {
      const encoder = prepare({ stream: true, ...extra }).encoder(head);
      const sent = events.slice(0, index + 1).map((event) => encoder.next(event));
      const stream = sseEvents(sent.join("") + encoder.fail(lost));
      const added = stream.filter(({ type }) => type === "response.output_item.added");
      const output = fieldOf(stream.at(-1), "response").output as { id: string }[];
      expect(output.map(({ id }) => id)).toEqual(added.map((event) => fieldOf(event, "item").id));
      expect(stream.filter(({ type }) => TERMINAL.has(type)).map(({ type }) => type)).toEqual(["response.failed"]);
    }
  });
});

test("a finish inside a block closes its item as incomplete first", () => {
  const events = encode([started, blockStarted(0, text()), delta(0, "a"), finished(FinishReason.MAX_OUTPUT_TOKENS)]);
  expect(types(events).slice(-2)).toEqual(["output_item.done", "incomplete"]);
  expect(fieldOf(events.at(-2), "item").status).toBe("incomplete");
});

describe("obfuscation", () => {
  const padded = { stream_options: { include_obfuscation: true } };
  const deltas = (events: readonly SseEvent[]) => events.filter(({ type }) => type.endsWith(".delta"));

  test("pads every kind of delta to one size, whatever its text", () => {
    const token = { token: "é", tokenBytes: Buffer.from("é"), logprob: -0.5, alternatives: [] };
    const events = [
      ...encode(
        answer([text("a", "a word", "é\n", "x".repeat(31)), call("c", "f", '{"a"', ":1}"), call("d", "f")]),
        padded,
      ),
      ...encode(answer([reasoning("deep")]), { ...padded, ...summary }),
      ...encode(answer([reasoning("deep")]), { ...padded, ...sealed }),
      ...encode([started, blockStarted(0, text()), delta(0, "é", [token])], { ...padded, top_logprobs: 1 }),
    ];
    const sizes = deltas(events).map(
      (event) => Buffer.byteLength(JSON.stringify(event.delta)) + String(event.obfuscation).length,
    );
    expect(sizes).toHaveLength(10);
    expect(sizes.filter((size) => size % 32 !== 0)).toEqual([]);
    expect(Math.max(...sizes)).toBe(64);
  });

  test("is left out unless requested, and is in deltas only", () => {
    const events = answer([text("a"), call("c", "f")]);
    expect(JSON.stringify(encode(events))).not.toContain("obfuscation");
    expect(encode(events, padded).filter((event) => "obfuscation" in event)).toEqual(deltas(encode(events, padded)));
  });
});
