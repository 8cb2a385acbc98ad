import { status } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import type { ClosedRequest } from "../../../../gateway/http/record/request-record.ts";
import { requestSpans } from "../../../../gateway/http/record/request-spans.ts";
import {
  type HeadSampler,
  isSampled,
  traceContextOf,
  traceHeaders,
  underSpan,
} from "../../../../gateway/http/record/trace-context.ts";
import type { Span } from "../../../../gateway/tracing/tracing.ts";
import type { AttemptEnd } from "../../../../gateway/upstream/call/call-record.ts";
import { fromGrpc, stalled } from "../../../../gateway/upstream/call/grpc-error.ts";
import { FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { closedRequest, newRecord } from "../../../support/requests/closed-request.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = "00f067aa0ba902b7";
/** Ids that show their requested length. */
const newId = (bytes: number) => "ab".repeat(bytes);
const FRESH = { traceId: newId(16), parentId: undefined, spanId: newId(8), flags: "00", state: undefined };

const contextOf = (headers: Parameters<typeof traceContextOf>[0], headSampler?: HeadSampler) =>
  traceContextOf(headers, headSampler, newId);

describe("traceparent", () => {
  test("a valid one is continued under a span of our own", () => {
    const context = contextOf({ traceparent: `00-${TRACE}-${PARENT}-01` });
    expect(context).toEqual({ traceId: TRACE, parentId: PARENT, spanId: newId(8), flags: "01", state: undefined });
    expect(traceHeaders(context)).toEqual({ traceparent: `00-${TRACE}-${newId(8)}-01` });
  });

  test("a later version is read in the form of this version", () => {
    const context = contextOf({ traceparent: `cc-${TRACE}-${PARENT}-03-what-comes-later` });
    expect(context).toMatchObject({ traceId: TRACE, flags: "03" });
    expect(traceHeaders(context).traceparent).toBe(`00-${TRACE}-${newId(8)}-03`);
  });

  test.each([
    ["absent", undefined],
    ["empty", ""],
    ["given twice", [`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`]],
    ["joined by Node", `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
    ["version ff", `ff-${TRACE}-${PARENT}-01`],
    ["version 00 with more behind it", `00-${TRACE}-${PARENT}-01-more`],
    ["a later version with more, but without a dash", `01-${TRACE}-${PARENT}-01more`],
    ["upper case", `00-${TRACE.toUpperCase()}-${PARENT}-01`],
    ["a trace id of zeros", `00-${"0".repeat(32)}-${PARENT}-01`],
    ["a parent id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["a short trace id", `00-${TRACE.slice(1)}-${PARENT}-01`],
    ["flags that are not hex", `00-${TRACE}-${PARENT}-0x`],
    ["a line break", `00-${TRACE}-${PARENT}-01\n`],
  ])("%s: a trace of our own begins, without the state", (_, traceparent) => {
    expect(contextOf({ traceparent, tracestate: "a=1" })).toEqual(FRESH);
  });

  test("generated ids have the right form and never repeat", () => {
    const [one, other] = [traceContextOf({}), traceContextOf({})];
    expect(traceHeaders(one).traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    expect(one.traceId).not.toBe(other.traceId);
    expect(one.spanId).not.toBe(other.spanId);
  });
});

describe("sampling", () => {
  const given = (flags: string) => ({ traceparent: `00-${TRACE}-${PARENT}-${flags}` });

  test.each([
    ["a trace that begins here, which is sampled", {}, true, "01"],
    ["a trace that begins here, which is not", {}, false, "00"],
    ["a sampled trace, which is followed", given("01"), false, "01"],
    ["an unsampled trace, which is sampled from here on", given("00"), true, "01"],
    ["an unsampled trace, which is not", given("00"), false, "00"],
    ["flags of later versions, which stay as they are", given("fe"), true, "ff"],
  ])("the sampled flag is right for %s", (_, headers, sampled, flags) => {
    const context = contextOf(headers, () => sampled);
    expect(context.flags).toBe(flags);
    expect(isSampled(context)).toBe(flags !== "00");
    expect(traceHeaders(context).traceparent).toMatch(new RegExp(`-${flags}$`));
  });

  test("sampling is decided by the trace id", () => {
    const asked: string[] = [];
    const sampler = (traceId: string) => asked.push(traceId) > 0;
    contextOf(given("00"), sampler);
    contextOf({}, sampler);
    expect(asked).toEqual([TRACE, newId(16)]);
  });
});

test("a call of the request has a span of its own", () => {
  const context = contextOf({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: "a=1" });
  const call = underSpan(context);
  expect(call.parentId).toBe(context.spanId);
  expect(traceHeaders(call)).toEqual({ traceparent: `00-${TRACE}-${call.spanId}-01`, tracestate: "a=1" });
});

describe("tracestate", () => {
  const stateOf = (tracestate: string) =>
    traceHeaders(contextOf({ traceparent: `00-${TRACE}-${PARENT}-01`, tracestate })).tracestate;

  test.each([
    ["one member", "vendor=value", "vendor=value"],
    ["several, with space and empty ones between", "a=1 ,, b@sys=2", "a=1,b@sys=2"],
    ["all characters of a value", "a=!#$%&'()*+-./:;<>?@[]^_`{|}~", "a=!#$%&'()*+-./:;<>?@[]^_`{|}~"],
  ])("the tracestate %s is passed on", (_, given, passed) => expect(stateOf(given)).toBe(passed));

  test.each([
    ["empty", ""],
    ["without a value", "a="],
    ["a key in upper case", "A=1"],
    ["a space in the value", "a=1 2"],
    ["a character that no header may hold", "a=\u00e9"],
    ["too long", `a=${"x".repeat(256)},b=${"x".repeat(255)}`],
    ["too many members", Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(",")],
  ])("the tracestate %s is dropped", (_, given) => expect(stateOf(given)).toBeUndefined());
});

const ROUTE = "/v1/messages";
const FAILED: Partial<ClosedRequest> = { code: 503, outcome: "server_error" };
/** Wall clock at the origin of the monotonic clock. */
const OFFSET_MS = 1_000_000;
const newSpan = () => "e".repeat(16);

const lost = () => fromGrpc(Object.assign(new Error("gone"), { code: status.UNAVAILABLE }) as never, true);

type Try = readonly [endpoint: string, endsMs: number, how: AttemptEnd];

/** A request that began at 5 ms; each attempt begins when the previous one has ended. */
async function request(fields: Partial<ClosedRequest> = {}, tries: readonly Try[] = [], path = ROUTE) {
  const clock = new VirtualClock();
  await clock.advance(5);
  const record = newRecord({ path, clock, traced: true });
  for (const [endpoint, endsMs, how] of tries) {
    record.generateSent(endpoint);
    await clock.advance(endsMs - clock.nowMs());
    record.generateEnded(how);
  }
  const spans = (end: Partial<ClosedRequest> = {}) => {
    const closed = closedRequest({ ...fields, ...end }, record);
    return requestSpans(closed, { method: "POST", offsetMs: OFFSET_MS, newId: newSpan });
  };
  return { record, spans };
}

const SENT: Partial<ClosedRequest> = {
  parsed: { model: "svc-qwen", stream: true, unopened: 0 },
  sent: { atMs: 2, priorityClass: "default" },
};
const ANSWERED: Partial<ClosedRequest> = {
  ...SENT,
  accepted: { queueMs: 10, acceptMs: undefined },
  firstDeltaMs: 30,
  finished: {
    atMs: 90,
    reason: FinishReason.TOOL_CALLS,
    usage: { inputTokens: 12, cachedInputTokens: 8, cacheWriteTokens: 0, outputTokens: 7, reasoningTokens: 3 },
  },
  endReason: "complete",
};

const at = (span: Span | undefined) => [span?.startMs, span?.endMs].map((ms) => (ms ?? 0) - OFFSET_MS);
const timesOf = (span: Span | undefined) => span?.events.map(({ name, atMs }) => [name, atMs - OFFSET_MS]);

describe("the spans of a request", () => {
  test("the spans of a request that was answered: the request, the generation, the call, each within the one above", async () => {
    const { record, spans } = await request(ANSWERED, [["10.0.0.1:50051", 97, "answered"]]);
    const [server, chat, call, ...more] = spans();
    expect(more).toEqual([]);
    expect([server, chat, call].map(at)).toEqual([
      [5, 105],
      [7, 97],
      [5, 97],
    ]);
    expect(server).toMatchObject({ name: "POST /v1/messages", spanId: record.facts.trace.spanId, parent: undefined });
    expect(chat).toMatchObject({ name: "chat svc-qwen", parent: { spanId: record.facts.trace.spanId, remote: false } });
    expect(call).toMatchObject({
      spanId: record.closed(200, true).tracedAttempts[0]?.spanId,
      parent: { spanId: newSpan(), remote: false },
    });
    expect(timesOf(chat)).toEqual([
      ["accepted", 17],
      ["first_delta", 35],
      ["finish", 95],
    ]);
    expect(chat?.attributes).toMatchObject({
      "gen_ai.response.finish_reasons": ["tool_calls"],
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.usage.cache_read.input_tokens": 8,
      "gen_ai.usage.output_tokens": 7,
      "gen_ai.usage.reasoning.output_tokens": 3,
    });
    expect(call?.attributes).toMatchObject({ "server.address": "10.0.0.1", "server.port": 50_051 });
    expect([server, chat, call].map((span) => span?.error)).toEqual([undefined, undefined, undefined]);
  });

  test("the spans of a request whose attempts all failed: an error in each, by its token", async () => {
    const { spans } = await request({ ...SENT, detail: "upstream_inter_token_timeout" }, [
      ["[::1]:1", 20, lost()],
      ["10.0.0.2:2", 50, stalled("inter_token")],
    ]);
    const [server, chat, first, second] = spans(FAILED);
    expect([server, chat].map((span) => span?.error)).toEqual(Array(2).fill("upstream_inter_token_timeout"));
    expect(timesOf(chat)).toEqual([["retry", 20]]);
    expect(first).toMatchObject({
      error: "upstream_reset",
      events: [],
      attributes: {
        "rpc.response.status_code": "UNAVAILABLE",
        "server.address": "::1",
        "server.port": 1,
        "svc.try": 1,
      },
    });
    expect(second).toMatchObject({
      error: "upstream_inter_token_timeout",
      attributes: { "rpc.response.status_code": "CANCELLED", "svc.try": 2 },
    });
    expect(timesOf(second)).toEqual([["stall", 50]]);
    expect(at(chat)).toEqual([7, 105]);
  });

  test("the spans of a request without an available endpoint: no call, and an error", async () => {
    const [, chat, ...calls] = (await request({ ...SENT, detail: "no_healthy_upstream" })).spans(FAILED);
    expect(chat?.error).toBe("no_healthy_upstream");
    expect(calls).toEqual([]);
  });
});
