import { describe, expect, test } from "vitest";
import { ApiError, type ErrorCode, engineLost } from "../../../../../gateway/errors.ts";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { answer, call, reasoning, text } from "../answers.ts";
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

describe("the stream of a response", () => {
  test("names both parts of a namespaced tool", () => {
    const tools = [{ type: "namespace", name: "fs", tools: [{ type: "function", name: "read" }] }];
    const place = { item_id: "fc_000000000000000000000001_0", output_index: 0 };
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

  test("logprobs come with each delta when requested", () => {
    const logprobs = [{ token: "a", tokenBytes: Buffer.from("a"), logprob: -1, alternatives: [] }];
    const events = answer([{ ...text("a"), logprobs }]);
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

  test("a failure inside an item keeps the finished items, marks the rest and closes nothing", () => {
    const encoder = prepare().encoder(head);
    const before = answer([text("a"), call("c", "f", '{"p')]).slice(0, -2);
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
  ])("a failure %s has the code %s", (code, told) => {
    const events = sseEvents(
      prepare()
        .encoder(head)
        .fail(new ApiError(code, { a: "words for A", b: "words for B" })),
    );
    expect(fieldOf(events[2], "response").error).toEqual({ code: told, message: "words for A" });
  });
});

test("a finish inside a block closes its item as incomplete first", () => {
  const events = encode(
    answer([text("a")], FinishReason.MAX_OUTPUT_TOKENS).filter(({ kind }) => kind?.$case !== "blockEnded"),
  );
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
      ...encode(answer([{ ...text("é"), logprobs: [token] }]), { ...padded, top_logprobs: 1 }),
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
