import { describe, expect, test } from "vitest";
import { ApiError } from "../../../../../gateway/errors.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { HEAD } from "../../../../support/events/encoding-context.ts";
import { started } from "../../../../support/events/events.ts";
import { answer, type Block, call, folded, text as textOf } from "../answers.ts";
import { prepareChat } from "./prepare-chat.ts";

const text = textOf("Hello ", "wörld 😀");

const reply = (blocks: Block[], reason: FinishReason, fields: object = {}) =>
  prepareChat(fields).reply(HEAD, folded(answer(blocks, reason)));

/** The text of the `data:` lines, without comments. */
function dataLines(stream: string): readonly string[] {
  return stream.split("\n").flatMap((line) => (line.startsWith("data: ") ? [line.slice("data: ".length)] : []));
}

describe("the folded reply of chat", () => {
  test("plain text has exactly the fields of a completion", () => {
    expect(reply([text], FinishReason.STOP)).toStrictEqual({
      id: "chatcmpl-000000000000000000000001",
      object: "chat.completion",
      created: 1_795_000_000,
      model: "svc-qwen",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hello wörld 😀", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: {
        prompt_tokens: 120,
        completion_tokens: 30,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 80, cache_write_tokens: 16 },
        completion_tokens_details: { reasoning_tokens: 7 },
      },
    });
  });

  test("a whole call without arguments has an empty object, a truncated one its text so far", () => {
    expect(reply([call("call_1", "read")], FinishReason.TOOL_CALLS)).toMatchObject({
      choices: [{ message: { tool_calls: [{ function: { arguments: "{}" } }] } }],
    });
    expect(
      reply([{ ...call("call_1", "read", '{"pa'), complete: false }], FinishReason.MAX_OUTPUT_TOKENS),
    ).toMatchObject({
      choices: [{ message: { tool_calls: [{ function: { arguments: '{"pa' } }] }, finish_reason: "length" }],
    });
  });

  test.each([
    [FinishReason.UNSPECIFIED, "stop"],
    [FinishReason.STOP, "stop"],
    [FinishReason.STOP_SEQUENCE, "stop"],
    [FinishReason.MAX_OUTPUT_TOKENS, "length"],
    [FinishReason.CONTEXT_WINDOW, "length"],
    [FinishReason.TOOL_CALLS, "tool_calls"],
    [FinishReason.CONTENT_FILTER, "content_filter"],
  ])("the canonical reason %i is %s", (reason, expected) => {
    expect(reply([text], reason)).toMatchObject({ choices: [{ finish_reason: expected }] });
  });

  const logprobs = [
    {
      token: "He",
      tokenBytes: Buffer.from("He"),
      logprob: -0.5,
      alternatives: [{ token: "A", tokenBytes: Buffer.alloc(0), logprob: Number.NEGATIVE_INFINITY }],
    },
  ];

  test("logprobs are shown when requested, and null when the engine has none", () => {
    expect(reply([{ ...text, logprobs }], FinishReason.STOP, { logprobs: true })).toMatchObject({
      choices: [
        {
          logprobs: {
            content: [
              {
                token: "He",
                logprob: -0.5,
                bytes: [72, 101],
                top_logprobs: [{ token: "A", logprob: -9999, bytes: null }],
              },
            ],
            refusal: null,
          },
        },
      ],
    });
    expect(reply([{ ...text, logprobs }], FinishReason.STOP)).toMatchObject({ choices: [{ logprobs: null }] });
    expect(reply([text], FinishReason.STOP, { logprobs: true })).toMatchObject({ choices: [{ logprobs: null }] });
  });

  test("the service tier is named only if the request named one", () => {
    expect(reply([text], FinishReason.STOP, { service_tier: "flex" })).toMatchObject({ service_tier: "default" });
    expect(reply([text], FinishReason.STOP, { service_tier: null })).not.toHaveProperty("service_tier");
  });

  test("usage is present although only streams request it; an absent message counts zero", () => {
    const fields = { stream_options: { include_usage: false } };
    expect(reply([text], FinishReason.STOP, fields)).toHaveProperty("usage.total_tokens", 150);
    const events = answer([], FinishReason.STOP, { usage: undefined });
    expect(prepareChat({}).reply(HEAD, folded(events))).toHaveProperty("usage.total_tokens", 0);
  });
});

describe("the stream of chat", () => {
  const chunks = (blocks: Block[], fields: object = {}) => {
    const encoder = prepareChat({ stream: true, ...fields }).encoder(HEAD);
    const lines = dataLines(
      answer(blocks)
        .map((event) => encoder.next(event))
        .join(""),
    );
    return lines.slice(0, -1).map((line) => JSON.parse(line));
  };

  test("has log probabilities with their delta, and the service tier, when requested", () => {
    const logprobs = [{ token: "R", tokenBytes: Buffer.from("R"), logprob: -1, alternatives: [] }];
    const blocks: Block[] = [{ kind: "text", deltas: ["R", "e"], logprobs }];
    const content = [{ token: "R", logprob: -1, bytes: [82], top_logprobs: [] }];
    const asked = chunks(blocks, { logprobs: true, service_tier: "auto" });
    expect(asked.map(({ choices }) => choices[0].logprobs)).toEqual([null, { content, refusal: null }, null, null]);
    expect(asked[1]).toHaveProperty("service_tier", "default");
    const unasked = chunks(blocks);
    expect(unasked.map(({ choices }) => choices[0].logprobs)).toEqual([null, null, null, null]);
    expect(unasked[1]).not.toHaveProperty("service_tier");
  });

  test.each([
    ["engine_unavailable", "server_error"],
    ["upstream_error", "server_error"],
    ["timeout", "timeout"],
    ["server_is_overloaded", "server_is_overloaded"],
  ] as const)("ends a failure %s in an error object of the code %s and the end marker", (code, shown) => {
    const encoder = prepareChat({ stream: true }).encoder(HEAD);
    encoder.next(started());
    const [object, ...rest] = dataLines(encoder.fail(new ApiError(code, "The engine stopped.")));
    const error = { message: "The engine stopped.", type: "server_error", param: null, code: shown };
    expect(JSON.parse(object ?? "")).toEqual({ error });
    expect(rest).toEqual(["[DONE]"]);
    expect(encoder.keepAlive() + encoder.fail(new ApiError(code, "Again."))).toBe("");
  });
});
