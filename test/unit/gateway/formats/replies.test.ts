import { describe, expect, test } from "vitest";
import { ApiError, type ErrorCode } from "../../../../gateway/errors.ts";
import { chat } from "../../../../gateway/formats/chat/request.ts";
import { CompletionFold, shownCallId } from "../../../../gateway/formats/completion.ts";
import type { Format } from "../../../../gateway/formats/format.ts";
import { countTokens, messages } from "../../../../gateway/formats/messages/request.ts";
import { compaction, responses } from "../../../../gateway/formats/responses/request.ts";
import { type Event, type Finished, FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { framesOf } from "../../../support/checkers/stream-text.ts";
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textStart,
  toolCallStart,
} from "../../../support/events/events.ts";
import { valueAt } from "../../../support/http/value-at.ts";
import { contextOf, head, prepare, requestOf, sealer } from "./fixture.ts";

/* What a request asks for changes its answer. The golden transcripts have answers of every form as a whole. */

const text = (...pieces: string[]) => [textStart(0), ...pieces.map((piece) => delta(0, piece)), blockEnd(0)];
const reasoning = (words: string) => [reasoningStart(0), delta(0, words), blockEnd(0)];
const call = (id: string, name: string, ...pieces: string[]) => [
  toolCallStart(0, name, id),
  ...pieces.map((piece) => delta(0, piece)),
  blockEnd(0),
];
const answer = (...events: Event[]) => [started(), ...events, finished()];
const ended = (reason: FinishReason, fields: Partial<Finished> = {}) => [
  started(),
  ...text("a"),
  finished(reason, {}, fields),
];

function foldOf(events: readonly Event[]) {
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  return fold.result();
}

/** The folded reply as a client reads it. */
function reply(format: Format, events: readonly Event[], fields: object = {}) {
  return JSON.parse(JSON.stringify(prepare(format, fields).reply(head, foldOf(events))));
}

/** The data of the frames of a stream. */
function stream(format: Format, events: readonly Event[], fields: object = {}): readonly unknown[] {
  const encoder = prepare(format, { stream: true, ...fields }).encoder(head);
  return framesOf(events.map((event) => encoder.next(event)).join("")).map(({ data }) => data);
}

const RESPONSE_ENDS = ["status", "incomplete_details.reason"];

test.each<[Format, FinishReason, Partial<Finished>, readonly string[], readonly unknown[]]>([
  [chat, FinishReason.UNSPECIFIED, {}, ["choices.0.finish_reason"], ["stop"]],
  [chat, FinishReason.CONTENT_FILTER, {}, ["choices.0.finish_reason"], ["content_filter"]],
  [chat, 99 as FinishReason, {}, ["choices.0.finish_reason"], ["stop"]],
  [messages, FinishReason.UNSPECIFIED, {}, ["stop_reason", "stop_sequence"], ["end_turn", null]],
  // The string was not the caller's.
  [messages, FinishReason.STOP_SEQUENCE, {}, ["stop_reason", "stop_sequence"], ["end_turn", null]],
  [messages, FinishReason.CONTENT_FILTER, {}, ["stop_reason"], ["refusal"]],
  [messages, 99 as FinishReason, {}, ["stop_reason"], ["end_turn"]],
  [responses, FinishReason.UNSPECIFIED, {}, RESPONSE_ENDS, ["completed", undefined]],
  [responses, FinishReason.CONTENT_FILTER, {}, RESPONSE_ENDS, ["incomplete", "content_filter"]],
  [responses, 99 as FinishReason, {}, RESPONSE_ENDS, ["completed", undefined]],
])("$name: reason %i with %j ends the reply", (format, reason, fields, paths, expected) => {
  const value = reply(format, ended(reason, fields));
  expect(paths.map((path) => valueAt(value, ...path.split(".")))).toEqual(expected);
});

test.each([chat, messages, responses])("$name: all counts are zero if the engine has none", (format) => {
  const { usage } = reply(format, ended(FinishReason.STOP, { usage: undefined }));
  expect(new Set(JSON.stringify(usage).match(/\d+/g))).toEqual(new Set(["0"]));
});

describe("log probabilities", () => {
  const token = (name: string, logprob: number) => ({ token: name, tokenBytes: Buffer.from(name), logprob });
  const logprobs = [{ ...token("é", -0.5), alternatives: [token("", -Infinity)] }];
  const events = answer(
    textStart(0),
    { kind: { $case: "blockDelta", value: { index: 0, text: "é", logprobs } } },
    blockEnd(0),
  );
  const shown = (bytes: null | []) => [
    { token: "é", bytes: [195, 169], logprob: -0.5, top_logprobs: [{ token: "", bytes, logprob: -9999 }] },
  ];
  const chatShown = { content: shown(null), refusal: null };
  const asked = { include: ["message.output_text.logprobs"] };

  test("log probabilities of chat are shown where requested, and null otherwise", () => {
    const of = (list: readonly Event[], fields: object) => reply(chat, list, fields).choices[0].logprobs;
    expect(of(events, { logprobs: true })).toEqual(chatShown);
    expect([of(events, {}), of(answer(...text("a")), { logprobs: true })]).toEqual([null, null]);
    const chunks = stream(chat, events, { logprobs: true }).slice(0, -1);
    expect(chunks.map((chunk) => valueAt(chunk, "choices", 0, "logprobs"))).toEqual([null, chatShown, null]);
  });

  test("log probabilities of responses are shown where requested, and empty otherwise", () => {
    const of = (fields: object) => reply(responses, events, fields).output[0].content[0].logprobs;
    expect([of({ top_logprobs: 1 }), of(asked), of({})]).toEqual([shown([]), shown([]), []]);
    const deltas = (fields: object) =>
      stream(responses, events, fields)
        .slice(4, 6)
        .map((event) => valueAt(event, "logprobs"));
    expect(deltas(asked)).toEqual([shown([]), shown([])]);
    expect(deltas({})).toEqual([[], []]);
  });
});

test("the service tier of chat is named only if the request named one", () => {
  const events = answer(...text("a"));
  expect(reply(chat, events, { service_tier: "flex" })).toHaveProperty("service_tier", "default");
  expect(reply(chat, events, { service_tier: null })).not.toHaveProperty("service_tier");
  expect(stream(chat, events, { service_tier: "auto" })[0]).toHaveProperty("service_tier", "default");
  expect(stream(chat, events)[0]).not.toHaveProperty("service_tier");
});

const signed = [{ type: "thinking", thinking: "Hm.", signature: "signed(3)" }];
const withheld = [{ type: "thinking", thinking: "", signature: "sealed reasoning:Hm." }];

test.each([
  [{ output_config: { effort: "none" } }, []],
  [{ thinking: { type: "adaptive", display: "omitted" } }, withheld],
  [{ thinking: { type: "adaptive", display: "updates" } }, signed],
])("messages: %j shows thinking as %j", (fields, content) => {
  expect(reply(messages, answer(...reasoning("Hm.")), fields).content).toEqual(content);
});

test.each([
  [[], { type: "tool_use", input: {} }],
  [["[1]"], { type: "text", text: "read [1]" }],
])("messages: a call with the arguments %j is %j", (pieces, block) => {
  expect(reply(messages, answer(...call("c", "read", ...pieces))).content).toMatchObject([block]);
});

const SEALED = { include: ["reasoning.encrypted_content"] };
const SUMMARY = { summary: [{ type: "summary_text", text: "r" }] };

test.each([
  [SEALED, { summary: [], content: [{ type: "reasoning_text", text: "r" }], encrypted_content: sealer.seal("r") }],
  [{ reasoning: { generate_summary: "concise" } }, SUMMARY],
])("responses: %j shows reasoning as %j", (fields, shown) => {
  const id = "rs_000000000000000000000001_0";
  const { output } = reply(responses, answer(...reasoning("r"), ...text("a")), fields);
  expect(output[0]).toEqual({ id, type: "reasoning", ...shown, status: "completed" });
});

test("responses: reasoning is left out unless requested", () => {
  const { output } = reply(responses, answer(...reasoning("r"), ...text("a")));
  expect(output).toMatchObject([{ id: "msg_000000000000000000000001_0", type: "message" }]);
});

describe("the response repeats", () => {
  const tool = (fields: object = {}) => ({
    type: "function",
    name: "f",
    description: null,
    parameters: { type: "object", properties: {} },
    strict: false,
    ...fields,
  });
  const most = 1_048_576;
  const format = { type: "json_schema", name: "n", schema: { type: "object" }, strict: true };

  const ROWS: Readonly<Record<string, readonly [fields: object, changed: object]>> = {
    "the settings of the request": [
      {
        ...{ frequency_penalty: 0.5, presence_penalty: -1, temperature: 0.5, top_p: 0, top_logprobs: 3 },
        ...{ instructions: "i", max_output_tokens: 50, max_tool_calls: 5, metadata: { a: "b" }, user: "u" },
        ...{ prompt_cache_key: "k", prompt_cache_retention: "24h", safety_identifier: "s", parallel_tool_calls: false },
        ...{ tools: [tool()], tool_choice: { type: "function", name: "f" } },
      },
      {},
    ],
    "the model by its id": [{ model: "svc/qwen" }, { model: "svc-qwen" }],
    "effort and summary": [
      { reasoning: { effort: "low", generate_summary: "concise" } },
      { reasoning: { effort: "low", summary: "concise" } },
    ],
    "a format of JSON": [{ text: { format: { type: "json_object" } } }, {}],
    "a schema, without the verbosity": [
      { text: { format, verbosity: "low" } },
      { text: { format: { ...format, description: null } } },
    ],
    "free text": [{}, { text: { format: { type: "text" } } }],
    "tools with their defaults": [{ tools: [{ type: "function", name: "f", extra: 1 }] }, { tools: [tool()] }],
    "groups of tools": [
      { tools: [{ type: "namespace", name: "fs", description: "d", tools: [tool({ name: "a" })] }] },
      {},
    ],
    "no large field": [
      { instructions: "i".repeat(most + 1), tools: [tool({ description: "d".repeat(most) })] },
      { instructions: null, tools: [] },
    ],
    "no long word": [
      { user: "u".repeat(1_025), safety_identifier: "s".repeat(1_025), prompt_cache_retention: "p".repeat(1_025) },
      { user: null, safety_identifier: null, prompt_cache_retention: null },
    ],
    "what fits": [
      { instructions: "i".repeat(most), tools: [tool({ description: "d".repeat(most / 2) })], user: "u".repeat(1_024) },
      {},
    ],
  };

  test.each(Object.entries(ROWS))("%s", (_, [fields, changed]) => {
    expect(reply(responses, answer(), fields)).toMatchObject({ ...fields, ...changed });
  });

  test("the response repeats neither client metadata nor the tools that are left out", () => {
    expect(reply(responses, answer(), { client_metadata: {} })).not.toHaveProperty("client_metadata");
    const fields = { tools: [{ type: "web_search" }, tool()] };
    const encoder = prepare(responses, fields, { unsupportedTools: "skip" }).encoder(head);
    expect(valueAt(framesOf(encoder.keepAlive())[0]?.data, "response", "tools")).toEqual([tool()]);
  });
});

test("responses: the call of a tool in a namespace has both parts of its name, any other the name alone", () => {
  const tools = [{ type: "namespace", name: "fs", tools: [{ type: "function", name: "read" }] }];
  const events = answer(...call("c", "fs__read", "{}"), ...call("d", "fs__other", "{}"));
  const own = { type: "function_call", call_id: "call_c", namespace: "fs", name: "read", arguments: "{}" };
  const { output } = reply(responses, events, { tools });
  expect(output).toMatchObject([own, { call_id: "call_d", name: "fs__other" }]);
  expect(output[1]).not.toHaveProperty("namespace");
  const items = stream(responses, events, { tools }).map((event) => valueAt(event, "item") ?? event);
  expect(items.slice(2, 6)).toMatchObject([
    { ...own, arguments: "" },
    { delta: "{}" },
    { name: "read", arguments: "{}" },
    own,
  ]);
});

test("responses: a finish inside a block closes its item as incomplete first", () => {
  const events = [started(), textStart(0), delta(0, "a"), finished(FinishReason.MAX_OUTPUT_TOKENS)];
  expect(stream(responses, events).slice(-2)).toMatchObject([
    { type: "response.output_item.done", item: { status: "incomplete" } },
    { type: "response.incomplete" },
  ]);
});

test.each<[Format, ErrorCode, string]>([
  [chat, "engine_unavailable", "server_error"],
  [chat, "upstream_error", "server_error"],
  [chat, "timeout", "timeout"],
  [chat, "server_is_overloaded", "server_is_overloaded"],
  [responses, "context_length_exceeded", "context_length_exceeded"],
  [responses, "rate_limit_exceeded", "rate_limit_exceeded"],
  [responses, "server_is_overloaded", "server_error"],
  [responses, "upstream_error", "server_error"],
  [responses, "timeout", "server_error"],
])("$name: a failure %s has the code %s", (format, code, shown) => {
  const encoder = prepare(format).encoder(head);
  encoder.next(started());
  const [frame] = framesOf(encoder.fail(new ApiError(code, { a: "words for A", b: "words for B" })));
  const error = valueAt(frame?.data, "error") ?? valueAt(frame?.data, "response", "error");
  expect(error).toMatchObject({ code: shown, message: "words for A" });
});

describe("obfuscation", () => {
  const padded = { stream_options: { include_obfuscation: true } };
  const isDelta = (event: unknown) => String(valueAt(event, "type")).endsWith(".delta");
  const isPadded = (event: unknown) => valueAt(event, "obfuscation") !== undefined;
  const mixed = answer(
    ...text("a", "a word", "é\n", "x".repeat(31)),
    ...call("c", "f", '{"a"', ":1}"),
    ...call("d", "f"),
  );

  test("obfuscation pads every kind of delta to one size, whatever its text", () => {
    const events = [
      ...stream(responses, mixed, padded),
      ...stream(responses, answer(...reasoning("deep")), { ...padded, reasoning: { summary: "auto" } }),
      ...stream(responses, answer(...reasoning("deep")), { ...padded, ...SEALED }),
      ...stream(responses, answer(...text("é")), { ...padded, top_logprobs: 1 }),
    ];
    const sizes = events.filter(isDelta).map((event) => {
      return Buffer.byteLength(JSON.stringify(valueAt(event, "delta"))) + String(valueAt(event, "obfuscation")).length;
    });
    expect(sizes).toHaveLength(10);
    expect(sizes.filter((size) => size % 32 !== 0)).toEqual([]);
    expect(Math.max(...sizes)).toBe(64);
  });

  test("obfuscation is in deltas only, where requested", () => {
    const events = stream(responses, mixed, padded);
    expect(events.filter(isPadded)).toEqual(events.filter(isDelta));
    expect(stream(responses, mixed).filter(isPadded)).toEqual([]);
  });
});

describe("a call has an id in the format's own form, whatever the engine created", () => {
  test.each([
    ["call_0123abcd", "0123abcd"],
    ["toolu_0123abcd", "0123abcd"],
    ["chatcmpl-tool-0123abcd", "0123abcd"],
    ["aB3dE5fG7", "aB3dE5fG7"],
  ])("%s only needs its prefix", (minted, core) => {
    expect(shownCallId("call_", minted, head)).toBe(`call_${core}`);
    expect(shownCallId("toolu_", minted, head)).toBe(`toolu_${core}`);
  });

  test.each(["functions.read:0", "", "é", "a b", "x".repeat(200)])(
    "%j is replaced by one of no other answer",
    (minted) => {
      const shown = shownCallId("toolu_", minted, head);
      expect(shown).toMatch(/^toolu_[A-Za-z0-9_-]{1,58}$/);
      expect(shownCallId("toolu_", minted, head)).toBe(shown);
      expect(shownCallId("toolu_", minted, { replyId: "another" })).not.toBe(shown);
      expect(shownCallId("toolu_", `${minted}1`, head)).not.toBe(shown);
    },
  );
});

describe("why the cache was missed", () => {
  const miss = (reason: string, changedPart?: "tools" | "system" | "messages") => ({
    lostTokens: 7,
    reason,
    changedPart,
  });
  const asking = { diagnostics: { previous_message_id: "msg_1" } };
  const changed = (type: string) => ({ cache_miss_reason: { type, cache_missed_input_tokens: 7 } });
  const unknown = (type: string) => ({ cache_miss_reason: { type } });
  const missed = (reason: string) => ({ type: "cache_miss", reason, cache_missed_tokens: 7 });

  test.each<[ReturnType<typeof miss> | undefined, object | null, object]>([
    [miss("hit"), null, { type: "cache_hit" }],
    [miss("new"), unknown("previous_message_not_found"), { type: "comparison_response_not_found" }],
    [miss("client_changed", "tools"), changed("tools_changed"), missed("tools_changed")],
    [miss("client_changed", "system"), changed("system_changed"), missed("input_changed")],
    [miss("client_changed", "messages"), changed("messages_changed"), missed("input_changed")],
    [miss("rewritten", "messages"), changed("messages_changed"), missed("context_compacted")],
    [miss("evicted"), unknown("unavailable"), { type: "unavailable" }],
    [undefined, unknown("unavailable"), { type: "unavailable" }],
  ])("%j becomes the words of each format", (cacheMiss, diagnostics, prompt_cache_diagnostics) => {
    const here = { ...head, cacheMiss: () => cacheMiss };
    const folded = (format: Format, fields: object) =>
      prepare(format, fields).reply(here, foldOf(answer(...text("Done."))));
    expect(folded(messages, asking)).toMatchObject({ diagnostics });
    const asked = { prompt_cache_options: { comparison_response_id: "resp_1" } };
    expect(folded(responses, asked)).toMatchObject({ prompt_cache_diagnostics });
    const encoder = prepare(responses, asked).encoder(here);
    const frames = framesOf(
      answer(...text("Done."))
        .map((event) => encoder.next(event))
        .join(""),
    );
    expect(frames.at(-1)?.data).toMatchObject({ response: { prompt_cache_diagnostics } });
  });

  test("callers that do not ask get nothing, and a first message has none before", () => {
    expect(reply(messages, answer(...text("Done.")))).not.toHaveProperty("diagnostics");
    expect(reply(responses, answer(...text("Done.")))).not.toHaveProperty("prompt_cache_diagnostics");
    const begun = { ...head, cacheMiss: () => miss("new") };
    const first = prepare(messages, { diagnostics: { previous_message_id: null } });
    expect(first.reply(begun, foldOf(answer()))).toMatchObject({ diagnostics: null });
  });

  test("a stream of messages has the reason at its start, or at its end where the engine reports late", () => {
    let known = miss("client_changed", "system") as ReturnType<typeof miss> | undefined;
    const events = () => {
      const encoder = prepare(messages, asking).encoder({ ...head, cacheMiss: () => known });
      const begin = framesOf(encoder.next(started()));
      known = miss("client_changed", "tools");
      const end = framesOf(encoder.next(finished()));
      return [begin[0]?.data, end[0]?.data];
    };
    const [early, over] = events();
    expect(early).toMatchObject({ message: { diagnostics: changed("system_changed") } });
    expect(over).not.toHaveProperty("diagnostics");
    known = undefined;
    expect(events()).toMatchObject([
      { message: { diagnostics: { cache_miss_reason: null } } },
      { diagnostics: changed("tools_changed") },
    ]);
  });
});

describe("compaction of messages", () => {
  const turns = [
    { role: "user", content: "Fix it." },
    { role: "assistant", content: "Done." },
  ];
  const edit = (trigger: number | undefined, more: object = {}) => ({
    context_management: {
      edits: [
        {
          ...{ type: "compact_20260112", pause_after_compaction: true, ...more },
          trigger: trigger === undefined ? undefined : { type: "input_tokens", value: trigger },
        },
      ],
    },
  });
  const summarised = (fields: object) =>
    requestOf(messages, { messages: turns, ...fields }).messages.length > turns.length;
  const summarize = { compaction: { type: "summarize" } };

  test.each<[object, boolean]>([
    [{}, false],
    [summarize, true],
    [{ ...summarize, context_management: { edits: [] } }, true],
    [edit(undefined), false],
    [edit(3), true],
    [edit(4), false],
    [edit(3, { pause_after_compaction: false }), false],
    [{ context_management: { edits: [{ type: "clear_thinking_20251015" }] } }, false],
    [{ context_management: "other" }, false],
  ])("%j asks for a summary: %s", (fields, expected) => {
    expect(summarised(fields)).toBe(expected);
  });

  test("the request keeps prefix and tools, and asks for a summary without calls and without a form", () => {
    const fields = { messages: turns, tools: [{ name: "read", input_schema: {} }] };
    const form = { output_config: { format: { type: "json_schema", schema: { type: "object" } } } };
    const plain = requestOf(messages, fields);
    const request = requestOf(messages, { ...fields, ...form, ...summarize, tool_choice: { type: "any" } });
    expect(request.messages.slice(0, -1)).toEqual(plain.messages);
    expect([request.tools, request.toolChoice?.mode]).toEqual([plain.tools, ToolChoiceMode.NONE]);
    expect(request.outputConstraint).toBeUndefined();
  });

  test.each([" ", null, undefined, "In one word."])("the instructions %j are those of the summary", (instructions) => {
    const compaction = { type: "summarize", instructions };
    const last = requestOf(messages, { messages: turns, compaction }).messages.at(-1)?.parts[0]?.kind;
    const own = requestOf(messages, { messages: turns, ...summarize }).messages.at(-1)?.parts[0]?.kind;
    expect(last).toEqual(instructions?.trim() ? { $case: "text", value: { text: instructions } } : own);
  });

  test("the reply is one block, folded as streamed, without reasoning", () => {
    const events = answer(...reasoning("Hm."), textStart(1), delta(1, " Half"), delta(1, " done. "), blockEnd(1));
    const block = { type: "compaction", content: "Half done.", encrypted_content: null };
    const stop = { stop_reason: "compaction", stop_sequence: null };
    expect(reply(messages, events, summarize)).toMatchObject({ content: [block], ...stop });
    expect(stream(messages, events, summarize)).toMatchObject([
      { type: "message_start" },
      { type: "content_block_start", index: 0, content_block: { ...block, content: null } },
      { type: "content_block_delta", index: 0, delta: { ...block, type: "compaction_delta" } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: stop },
      { type: "message_stop" },
    ]);
  });

  test("an answer without text is a failure", () => {
    expect(() => reply(messages, answer(...reasoning("Hm.")), summarize)).toThrow("no summary");
    expect(stream(messages, answer(), summarize)).toMatchObject([{}, { type: "error" }]);
  });

  test("a count is that of the conversation as sent", () => {
    const body = { model: "svc-qwen", messages: turns };
    expect(countTokens.prepare({ ...body, ...summarize }, contextOf())).toEqual(countTokens.prepare(body, contextOf()));
  });
});

describe("compaction", () => {
  const user = { role: "user", content: "Fix the test." };
  const trigger = { type: "compaction_trigger" };
  const tools = [{ type: "function", name: "read" }];

  test("a trigger keeps prefix and tools, and asks for a summary without calls and without a form", () => {
    const format = { type: "json_schema", name: "n", schema: { type: "object" } };
    const plain = requestOf(responses, { input: [user], instructions: "Be brief.", tools });
    const more = { instructions: "Be brief.", tools, tool_choice: "required", text: { format } };
    const request = requestOf(responses, { input: [user, trigger], ...more });
    expect(request.messages.slice(0, -1)).toEqual(plain.messages);
    expect(request.messages.at(-1)?.role).toBe(Role.USER);
    expect(request.tools).toEqual(plain.tools);
    expect(request.toolChoice?.mode).toBe(ToolChoiceMode.NONE);
    expect(request.outputConstraint).toBeUndefined();
    expect(requestOf(responses, { input: [user, trigger] }).toolChoice).toBeUndefined();
  });

  test("the stream of a compaction sends keep-alives, and reports a failure", () => {
    const encoder = prepare(responses, { input: [user, trigger] }).encoder(head);
    const frames = framesOf(encoder.keepAlive() + encoder.fail(new ApiError("timeout", "late")));
    const begin = ["response.created", "response.in_progress"];
    expect(frames.map(({ event }) => event)).toEqual([...begin, "keepalive", "response.failed"]);
  });

  test("the reply of the endpoint keeps the newest messages that fit", () => {
    const input = ["old", "é".repeat(127_000), "new"].map((content) => ({ role: "user", content }));
    const kept = (...more: object[]) =>
      reply(compaction, answer(...text("Done.")), { input: [...input, ...more] }).output.length - 1;
    expect(kept()).toBe(3);
    expect(kept({ role: "user", content: "x".repeat(1_995) })).toBe(3);
    expect(kept({ role: "user", content: "x".repeat(2_000) })).toBe(2);
  });
});
