import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { finishReason } from "../../formats/chat/finish-reason.ts";
import type { Span, SpanEvent } from "../../tracing/span.ts";
import type { Tracing } from "../../tracing/tracing.ts";
import { grpcStatusOf } from "../../upstream/call/grpc-error.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { RequestEnd } from "./request-stats.ts";
import { isSampled, newSpanId } from "./trace-context.ts";
import type { TracedTry } from "./traced-tries.ts";

export type TracedEnd = RequestEnd & { readonly method: string | undefined };

/** Exports the spans of a request that is over, if its trace is sampled or it failed. */
export function traceRequest(tracing: Tracing, facts: RequestFacts, end: TracedEnd, clock: Clock): void {
  if (!isSampled(facts.trace) && end.outcome !== "server_error") return;
  tracing.export(requestSpans(facts, end, clock.wallMs() - clock.nowMs(), newSpanId));
}

/**
 * A span of the request; where it was sent to an engine one of the generation below it, and below that one of each call.
 * Names and attributes are OpenTelemetry's for HTTP, GenAI and RPC. `offsetMs`: from the clock's time to the wall clock's.
 */
export function requestSpans(facts: RequestFacts, end: TracedEnd, offsetMs: number, newId: () => string): Span[] {
  const { trace, startedMs, labels, detail } = facts;
  const { method = "", code, outcome, totalMs } = end;
  const startMs = offsetMs + startedMs;
  const error = outcome === "server_error" ? (detail ?? String(code)) : undefined;
  const route = labels.route === "unknown" ? undefined : labels.route;
  const server: Span = {
    name: route === undefined ? method : `${method} ${route}`,
    kind: "server",
    traceId: trace.traceId,
    spanId: trace.spanId,
    parent: trace.parentId === undefined ? undefined : { spanId: trace.parentId, remote: true },
    startMs,
    endMs: startMs + totalMs,
    attributes: {
      "http.request.method": method,
      "http.route": route,
      "http.response.status_code": code === 0 ? undefined : code,
      "url.scheme": "http",
      "svc.request_id": facts.requestId,
      "svc.end_reason": facts.endReason,
    },
    events: [],
    error,
  };
  if (facts.sentMs === undefined || facts.model === undefined) return [server];
  const chat = chatSpan(facts, server, facts.sentMs, facts.model, offsetMs, newId());
  return [server, chat, ...triesOf(facts).map((tried, index) => trySpan(tried, index, chat, offsetMs))];
}

function chatSpan(
  facts: RequestFacts,
  { traceId, spanId: above, startMs, endMs, error }: Span,
  sentMs: number,
  model: string,
  offsetMs: number,
  spanId: string,
): Span {
  const { usage, queueMs, firstDeltaMs, finishedMs } = facts;
  const tries = triesOf(facts);
  // An answer is complete a moment before its call is.
  const answeredMs = finishedMs === undefined ? undefined : tries.at(-1)?.end?.atMs;
  // OpenTelemetry has no list of words for them; its examples and most backends use these.
  const finishReasons = facts.finishReason === undefined ? undefined : [finishReason(facts.finishReason)];
  return {
    name: `chat ${model}`,
    kind: "internal",
    traceId,
    spanId,
    parent: { spanId: above, remote: false },
    startMs: startMs + sentMs,
    endMs: answeredMs === undefined ? endMs : offsetMs + answeredMs,
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "svc",
      "gen_ai.request.model": model,
      "gen_ai.response.model": facts.finishReason === undefined ? undefined : model,
      "gen_ai.response.finish_reasons": finishReasons,
      "gen_ai.usage.input_tokens": usage?.inputTokens,
      "gen_ai.usage.cache_read.input_tokens": usage?.cachedInputTokens,
      "gen_ai.usage.output_tokens": usage?.outputTokens,
      "gen_ai.usage.reasoning.output_tokens": usage?.reasoningTokens,
    },
    events: [
      ...eventAt("accepted", queueMs === undefined ? undefined : startMs + sentMs + queueMs),
      ...eventAt("first_delta", firstDeltaMs === undefined ? undefined : startMs + firstDeltaMs),
      ...tries.slice(1).map(({ startedMs }) => ({ name: "retry", atMs: offsetMs + startedMs })),
      ...eventAt("finish", finishedMs === undefined ? undefined : startMs + finishedMs),
    ].sort((one, other) => one.atMs - other.atMs),
    error,
  };
}

function trySpan({ endpoint, spanId, startedMs, end }: TracedTry, index: number, chat: Span, offsetMs: number): Span {
  // What still runs when its request is over is being cancelled.
  const how = end?.how ?? "cancelled";
  const failure = typeof how === "string" ? undefined : how;
  const endMs = end ? offsetMs + end.atMs : chat.endMs;
  const colon = endpoint.lastIndexOf(":");
  return {
    name: "svc.inference.v1.InferenceService/Generate",
    kind: "client",
    traceId: chat.traceId,
    spanId,
    parent: { spanId: chat.spanId, remote: false },
    startMs: offsetMs + startedMs,
    endMs,
    attributes: {
      "rpc.system.name": "grpc",
      "rpc.method": "svc.inference.v1.InferenceService/Generate",
      "rpc.response.status_code": failure ? grpcStatusOf(failure) : how === "answered" ? "OK" : "CANCELLED",
      "server.address": endpoint.slice(0, colon).replace(/^\[(.*)\]$/, "$1"),
      "server.port": Number(endpoint.slice(colon + 1)),
      "svc.try": index + 1,
    },
    events: failure?.ending.kind === "stalled" ? eventAt("stall", endMs) : [],
    error: failure?.error.detail,
  };
}

function triesOf({ tries }: RequestFacts): readonly TracedTry[] {
  return tries?.all ?? [];
}

function eventAt(name: string, atMs: number | undefined): SpanEvent[] {
  return atMs === undefined ? [] : [{ name, atMs }];
}
