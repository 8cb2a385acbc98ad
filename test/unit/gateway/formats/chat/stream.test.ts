import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { head, prepareChat } from "./prepare-chat.ts";
import {
  type Block,
  blockDelta,
  blockEnded,
  blockStarted,
  dataLines,
  finished,
  progress,
  replyOf,
  started,
  streamOf,
  transcript,
} from "./transcript.ts";

const call = (callId: string, deltas: string[], complete = true): Block => ({
  kind: { callId, name: "read" },
  deltas,
  complete,
});
const thought: Block = { kind: "reasoning", deltas: ["I need"] };
const text: Block = { kind: "text", deltas: ["Reading."] };

type Delta = {
  role?: string;
  content?: string;
  reasoning_content?: string;
  tool_calls?: { index: number; id?: string; type?: string; function: { name?: string; arguments: string } }[];
};
type Chunk = {
  id: string;
  object: string;
  created: number;
  model: string;
  choices: { index: number; delta: Delta; logprobs: object | null; finish_reason: string | null }[];
  usage?: object | null;
};

const chunksOf = (stream: string): Chunk[] =>
  dataLines(stream)
    .filter((line) => line !== "[DONE]")
    .map((line): Chunk => JSON.parse(line));

const stream = (blocks: readonly Block[], reason: FinishReason, fields: object = {}) =>
  streamOf(prepareChat({ stream: true, ...fields }), head, transcript(blocks, reason));

describe("the stream of chat", () => {
  test("reasoning, text and a call, frame by frame", () => {
    const base =
      '{"id":"chatcmpl-AAAAAAAAAAAAAAAAAAAAAAAA","object":"chat.completion.chunk","created":1795000000,"model":"svc-qwen"';
    const chunk = (delta: string, finish = "null") =>
      `data: ${base},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish}}],"usage":null}\n\n`;
    const blocks = [thought, text, call("call_a1", ['{"path":', '"a.ts"}'])];
    expect(stream(blocks, FinishReason.TOOL_CALLS, { stream_options: { include_usage: true } })).toBe(
      [
        chunk('{"role":"assistant","content":""}'),
        chunk('{"reasoning_content":"I need"}'),
        chunk('{"content":"Reading."}'),
        chunk(
          '{"tool_calls":[{"index":0,"id":"call_a1","type":"function","function":{"name":"read","arguments":""}}]}',
        ),
        chunk('{"tool_calls":[{"index":0,"function":{"arguments":"{\\"path\\":"}}]}'),
        chunk('{"tool_calls":[{"index":0,"function":{"arguments":"\\"a.ts\\"}"}}]}'),
        chunk("{}", '"tool_calls"'),
        `data: ${base},"choices":[],"usage":{"prompt_tokens":120,"completion_tokens":30,"total_tokens":150,` +
          '"prompt_tokens_details":{"cached_tokens":96,"cache_write_tokens":0},' +
          '"completion_tokens_details":{"reasoning_tokens":12}}}\n\n',
        "data: [DONE]\n\n",
      ].join(""),
    );
  });

  test.each([[{}], [{ stream_options: {} }], [{ stream_options: { include_usage: false } }]])(
    "with %j no chunk has a usage key",
    (fields) => {
      for (const chunk of chunksOf(stream([text], FinishReason.STOP, fields)))
        expect(chunk).not.toHaveProperty("usage");
    },
  );

  test("the role is sent with the first event, before any text", () => {
    const encoder = prepareChat({ stream: true }).encoder(head);
    expect(chunksOf(encoder.next(started))[0]?.choices[0]?.delta).toEqual({ role: "assistant", content: "" });
  });

  test("progress, a repeated start and kinds of a newer engine are not shown", () => {
    const encoder = prepareChat({ stream: true }).encoder(head);
    expect(encoder.next(progress)).toBe("");
    encoder.next(started);
    expect(encoder.next(started)).toBe("");
    expect(encoder.next({ kind: undefined })).toBe("");
    const newer: Event = { kind: { $case: "blockStarted", value: { index: 0, block: undefined } } };
    expect([newer, blockDelta(0, "x"), blockEnded(0)].map((event) => encoder.next(event))).toEqual(["", "", ""]);
    expect(encoder.next(finished(FinishReason.STOP))).not.toBe("");
    expect(encoder.next(finished(FinishReason.STOP))).toBe("");
  });

  test("calls are numbered separately from other blocks", () => {
    const blocks = [text, call("c0", ["{}"]), thought, call("c1", ['{"a":', "1}"])];
    const calls = chunksOf(stream(blocks, FinishReason.TOOL_CALLS)).flatMap(
      (c) => c.choices[0]?.delta.tool_calls ?? [],
    );
    expect(calls).toEqual([
      { index: 0, id: "call_c0", type: "function", function: { name: "read", arguments: "" } },
      { index: 0, function: { arguments: "{}" } },
      { index: 1, id: "call_c1", type: "function", function: { name: "read", arguments: "" } },
      { index: 1, function: { arguments: '{"a":' } },
      { index: 1, function: { arguments: "1}" } },
    ]);
  });

  test("logprobs come with their delta when requested", () => {
    const logprobs = [{ token: "R", tokenBytes: Buffer.from("R"), logprob: -1, alternatives: [] }];
    const blocks = [{ ...text, deltas: ["R", "e"], logprobs }];
    const asked = chunksOf(stream(blocks, FinishReason.STOP, { logprobs: true })).map((c) => c.choices[0]?.logprobs);
    const content = [{ token: "R", logprob: -1, bytes: [82], top_logprobs: [] }];
    expect(asked).toEqual([null, { content, refusal: null }, null, null]);
    const unasked = chunksOf(stream(blocks, FinishReason.STOP)).map((c) => c.choices[0]?.logprobs);
    expect(unasked).toEqual([null, null, null, null]);
  });

  test("the service tier is named only if the request named one", () => {
    expect(chunksOf(stream([text], FinishReason.STOP, { service_tier: "auto" }))[1]).toHaveProperty(
      "service_tier",
      "default",
    );
    expect(chunksOf(stream([text], FinishReason.STOP))[1]).not.toHaveProperty("service_tier");
  });

  test("a keep-alive is a comment, at any point", () => {
    const encoder = prepareChat({ stream: true }).encoder(head);
    expect(encoder.keepAlive()).toBe(": keep-alive\n\n");
    encoder.next(started);
    encoder.next(blockStarted(0, "text"));
    expect(encoder.keepAlive()).toBe(": keep-alive\n\n");
  });

  test.each([
    [new ApiError("engine_unavailable", "The engine stopped."), { code: "server_error", type: "server_error" }],
    [new ApiError("upstream_error", "The engine stopped."), { code: "server_error", type: "server_error" }],
    [new ApiError("server_error", "The engine stopped."), { code: "server_error", type: "server_error" }],
    [new ApiError("timeout", "The engine stopped."), { code: "timeout", type: "server_error" }],
    [
      new ApiError("server_is_overloaded", "The engine stopped."),
      { code: "server_is_overloaded", type: "server_error" },
    ],
  ])("a failure in mid-stream is an error object and the end marker: %s", (error, expected) => {
    const encoder = prepareChat({ stream: true }).encoder(head);
    for (const event of [started, blockStarted(0, { callId: "c", name: "f" }), blockDelta(0, '{"a')])
      encoder.next(event);
    const frames = encoder.fail(error);
    const [object, marker, ...rest] = dataLines(frames);
    expect(JSON.parse(object ?? "")).toEqual({ error: { ...expected, message: "The engine stopped.", param: null } });
    expect([marker, ...rest]).toEqual(["[DONE]"]);
    expect(frames.endsWith("data: [DONE]\n\n")).toBe(true);
    expect([encoder.next(blockDelta(0, "x")), encoder.next(finished(FinishReason.STOP)), encoder.fail(error)]).toEqual([
      "",
      "",
      "",
    ]);
  });

  test("a failure after the end adds nothing", () => {
    const encoder = prepareChat({ stream: true }).encoder(head);
    for (const event of transcript([text], FinishReason.STOP)) encoder.next(event);
    expect(encoder.fail(new ApiError("timeout", "Too late."))).toBe("");
  });
});

/** Every answer of up to three blocks with up to two deltas each. */
function allBlocks(): Block[][] {
  const deltas = [[], ["a\n\ndata: "], ["{", '"ü😀\u2028"}']];
  const kinds = (position: number): Block["kind"][] => ["text", "reasoning", { callId: `call_${position}`, name: "f" }];
  const longer = (blocks: Block[]): Block[][] =>
    blocks.length === 3
      ? [blocks]
      : [
          blocks,
          ...kinds(blocks.length).flatMap((kind) => deltas.flatMap((d) => longer([...blocks, { kind, deltas: d }]))),
        ];
  return longer([]);
}

const REASONS = [
  FinishReason.STOP,
  FinishReason.STOP_SEQUENCE,
  FinishReason.MAX_OUTPUT_TOKENS,
  FinishReason.TOOL_CALLS,
];

/** A client's fold of a stream: the reply that it would have received without one. */
function folded(chunks: readonly Chunk[]): object {
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const join = (key: "content" | "reasoning_content") => choices.map(({ delta }) => delta[key] ?? "").join("");
  const calls: { id: string; type: string; function: { name: string; arguments: string } }[] = [];
  for (const part of choices.flatMap(({ delta }) => delta.tool_calls ?? [])) {
    const {
      index,
      id = "",
      type = "",
      function: { name = "", arguments: args },
    } = part;
    const known = calls[index];
    if (known) known.function.arguments += args;
    else calls[index] = { id, type, function: { name, arguments: args } };
  }
  const content = join("content");
  const reasoning = join("reasoning_content");
  return {
    content: content === "" && calls.length > 0 ? null : content,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
    finish_reason: choices.at(-1)?.finish_reason,
    usage: chunks.at(-1)?.usage,
  };
}

describe("every legal stream of up to three blocks", () => {
  test.each(REASONS)("ended by reason %i follows the rules of the format and matches the folded reply", (reason) => {
    const prepared = prepareChat({ stream: true, stream_options: { include_usage: true } });
    for (const blocks of allBlocks()) {
      const events = transcript(blocks, reason);
      const sse = streamOf(prepared, head, events);
      const lines = dataLines(sse);
      const chunks = chunksOf(sse);
      expect(sse).toBe(lines.map((line) => `data: ${line}\n\n`).join(""));
      expect(lines.indexOf("[DONE]")).toBe(lines.length - 1);
      expect(new Set(chunks.map(({ id, object, created, model }) => `${id} ${object} ${created} ${model}`)).size).toBe(
        1,
      );
      expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
      expect(chunks.map((chunk) => chunk.choices.length)).toEqual([...new Array(chunks.length - 1).fill(1), 0]);
      expect(chunks.findIndex((chunk) => chunk.choices[0]?.finish_reason)).toBe(chunks.length - 2);
      expect(chunks.findIndex((chunk) => chunk.usage !== null)).toBe(chunks.length - 1);
      expect(chunks.some((chunk) => "error" in chunk)).toBe(false);
      const { choices, usage } = JSON.parse(JSON.stringify(replyOf(prepared, head, events)));
      const { role, refusal, ...message } = choices[0].message;
      expect([role, refusal]).toEqual(["assistant", null]);
      expect(folded(chunks)).toEqual({ ...message, finish_reason: choices[0].finish_reason, usage });
    }
  });
});
