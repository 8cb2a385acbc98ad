import { describe, expect, test } from "vitest";
import { type Event, FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { answer, call, folded, reasoning, text } from "../answers.ts";
import { head, prepare, sealer } from "./prepared-request.ts";

/** The JSON of a non-streaming reply, as a client reads it. */
function replyTo(events: readonly Event[], extra: object = {}) {
  return JSON.parse(JSON.stringify(prepare(extra).reply(head, folded(events))));
}

const sealed = { include: ["reasoning.encrypted_content"] };

describe("the response object", () => {
  test("repeats the request's settings", () => {
    const echoed = {
      frequency_penalty: 0.5,
      instructions: "i",
      max_output_tokens: 50,
      max_tool_calls: 5,
      metadata: { a: "b" },
      parallel_tool_calls: false,
      presence_penalty: -1,
      prompt_cache_key: "k",
      prompt_cache_retention: "24h",
      safety_identifier: "s",
      temperature: 0.5,
      tool_choice: { type: "function", name: "f" },
      top_logprobs: 3,
      top_p: 0,
      user: "u",
    };
    const more = {
      tools: [{ type: "function", name: "f" }],
      reasoning: { effort: "low", generate_summary: "concise" },
      model: "svc/qwen",
    };
    const reply = replyTo(answer([]), { ...echoed, ...more });
    expect(reply).toMatchObject({ ...echoed, model: "svc-qwen", reasoning: { effort: "low", summary: "concise" } });
  });

  test("does not repeat large fields, which each event would carry", () => {
    const most = 1_048_576;
    const tool = (length: number) => ({ type: "function", name: "f", description: "d".repeat(length), parameters: {} });
    const long = { instructions: "i".repeat(most + 1), tools: [tool(most)] };
    const words = {
      user: "u".repeat(1_025),
      safety_identifier: "s".repeat(1_025),
      prompt_cache_retention: "p".repeat(1_025),
    };
    expect(replyTo(answer([]), { ...long, ...words })).toMatchObject({
      ...{ instructions: null, tools: [] },
      ...{ user: null, safety_identifier: null, prompt_cache_retention: null },
    });
    const fits = { instructions: "i".repeat(most), tools: [tool(most / 2)], user: "u".repeat(1_024) };
    expect(replyTo(answer([]), fits)).toMatchObject(fits);
  });

  test("gives zeros if the engine measured nothing", () => {
    expect(replyTo(answer([], FinishReason.STOP, { usage: undefined })).usage).toMatchObject({
      input_tokens: 0,
      output_tokens: 0,
      total_tokens: 0,
    });
  });

  test.each([
    [FinishReason.STOP, "completed", null],
    [FinishReason.STOP_SEQUENCE, "completed", null],
    [FinishReason.TOOL_CALLS, "completed", null],
    [FinishReason.UNSPECIFIED, "completed", null],
    [99 as FinishReason, "completed", null],
    [FinishReason.MAX_OUTPUT_TOKENS, "incomplete", { reason: "max_output_tokens" }],
    [FinishReason.CONTEXT_WINDOW, "incomplete", { reason: "max_output_tokens" }],
    [FinishReason.CONTENT_FILTER, "incomplete", { reason: "content_filter" }],
  ])("finish reason %s is %s", (reason, status, details) => {
    const reply = replyTo(answer([text("a")], reason));
    expect([reply.status, reply.incomplete_details]).toEqual([status, details]);
    expect(reply.completed_at).toBe(status === "completed" ? 1_795_000_001 : null);
  });
});

describe("output items", () => {
  test("a call of a namespaced tool names both parts, any other the name alone", () => {
    const tools = [{ type: "namespace", name: "fs", tools: [{ type: "function", name: "read" }] }];
    const reply = replyTo(answer([call("c", "fs__read", "{}"), call("d", "fs__other", "{}")]), { tools });
    expect(reply.output).toMatchObject([
      { type: "function_call", call_id: "call_c", namespace: "fs", name: "read" },
      { type: "function_call", call_id: "call_d", name: "fs__other" },
    ]);
    expect(reply.output[1]).not.toHaveProperty("namespace");
  });

  test("reasoning is left out unless requested", () => {
    const reply = replyTo(answer([reasoning("r"), text("a")]));
    expect(reply.output).toMatchObject([{ id: "msg_000000000000000000000001_0", type: "message" }]);
  });

  test.each([
    [{ reasoning: { summary: "auto" } }, { summary: [{ type: "summary_text", text: "r" }] }],
    [sealed, { summary: [], content: [{ type: "reasoning_text", text: "r" }], encrypted_content: sealer.seal("r") }],
    [
      { ...sealed, reasoning: { summary: "detailed" } },
      { summary: [{ type: "summary_text", text: "r" }], encrypted_content: sealer.seal("r") },
    ],
  ])("%j shows reasoning as %j", (extra, shown) => {
    expect(replyTo(answer([reasoning("r"), text("a")]), extra).output[0]).toEqual({
      id: "rs_000000000000000000000001_0",
      type: "reasoning",
      ...shown,
      status: "completed",
    });
  });

  test("logprobs are shown only when requested", () => {
    const token = (name: string, logprob: number) => ({ token: name, tokenBytes: Buffer.from(name), logprob });
    const logprobs = [{ ...token("é", -0.5), alternatives: [token("e", -Infinity)] }];
    const events = answer([{ ...text("é"), logprobs }]);
    expect(replyTo(events).output[0].content[0].logprobs).toEqual([]);
    expect(replyTo(events, { top_logprobs: 1 }).output[0].content[0].logprobs).toEqual([
      { token: "é", bytes: [195, 169], logprob: -0.5, top_logprobs: [{ token: "e", bytes: [101], logprob: -9999 }] },
    ]);
  });
});
