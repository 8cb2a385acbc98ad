import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { finishReason } from "../../formats/chat/reply.ts";
import type { Span, SpanEvent, Tracing } from "../../tracing/tracing.ts";
import { grpcStatusOf } from "../../upstream/call/grpc-error.ts";
import type { ClosedRequest, TracedAttempt } from "./request-record.ts";
import { isSampled, newSpanId } from "./trace-context.ts";

/**
 * Exports the spans of a completed request, if its trace is sampled or the service failed it. A request without a valid
 * key has none: unauthenticated callers must not fill the collector, nor evict other spans from its queue.
 */
export function traceRequest(
  tracing: Tracing,
  request: ClosedRequest,
  { method, grpcStatus }: { readonly method: string | undefined; readonly grpcStatus?: string | undefined },
  clock: Clock,
): void {
  if (!request.principal || (!isSampled(request.trace) && request.outcome !== "server_error")) return;
  const offsetMs = clock.wallMs() - clock.nowMs();
  tracing.export(requestSpans(request, { method: method ?? "", grpcStatus, offsetMs, newId: newSpanId }));
}

export type SpanSurroundings = {
  readonly method: string;
  /** Name of the final gRPC status. Default: not a gRPC call. */
  readonly grpcStatus?: string | undefined;
  /** Milliseconds from the monotonic clock to the wall clock. */
  readonly offsetMs: number;
  /** 16 hex digits. */
  readonly newId: () => string;
};

/** The request, its generation and each call, with OpenTelemetry's names and attributes for HTTP, GenAI and RPC. */
export function requestSpans(request: ClosedRequest, surroundings: SpanSurroundings): Span[] {
  const { parsed, sent, tracedAttempts } = request;
  const { offsetMs, newId } = surroundings;
  const server = serverSpan(request, surroundings);
  if (!parsed || !sent) return [server];
  const chat = chatSpan({ ...request, parsed, sent }, server, offsetMs, newId());
  return [server, chat, ...tracedAttempts.map((attempt, index) => attemptSpan(attempt, index, chat, offsetMs))];
}

function serverSpan(request: ClosedRequest, { method, grpcStatus, offsetMs }: SpanSurroundings): Span {
  const { trace, labels, code, outcome, detail } = request;
  const startMs = offsetMs + request.startedMs;
  const route = labels.route === "unknown" ? undefined : labels.route;
  // OpenTelemetry names a call by its method, without the leading slash of its path.
  const rpc = labels.route.slice(1);
  const protocol =
    grpcStatus === undefined
      ? {
          "http.request.method": method,
          "http.route": route,
          "http.response.status_code": code === 0 ? undefined : code,
          "url.scheme": "http",
        }
      : { "rpc.system.name": "grpc", "rpc.method": rpc, "rpc.response.status_code": grpcStatus };
  const named = route === undefined ? method : `${method} ${route}`;
  return {
    name: grpcStatus === undefined ? named : rpc,
    kind: "server",
    traceId: trace.traceId,
    spanId: trace.spanId,
    parent: trace.parentId === undefined ? undefined : { spanId: trace.parentId, remote: true },
    startMs,
    endMs: startMs + request.totalMs,
    attributes: {
      ...protocol,
      "svc.request_id": request.requestId,
      "svc.end_reason": request.endReason,
    },
    events: [],
    error: outcome === "server_error" ? (detail ?? String(code)) : undefined,
  };
}

type SentRequest = ClosedRequest & Readonly<Record<"parsed" | "sent", object>>;

function chatSpan(request: SentRequest, server: Span, offsetMs: number, spanId: string): Span {
  const { sent, accepted, firstDeltaMs, finished, tracedAttempts } = request;
  const { model } = request.parsed;
  const usage = finished?.usage;
  const { startMs } = server;
  // An answer is complete slightly before its call.
  const answeredMs = finished && tracedAttempts.at(-1)?.end?.atMs;
  // OpenTelemetry has no list of finish reasons; its examples and most backends use these.
  const finishReasons = finished && [finishReason(finished.reason)];
  return {
    name: `chat ${model}`,
    kind: "internal",
    traceId: server.traceId,
    spanId,
    parent: { spanId: server.spanId, remote: false },
    startMs: startMs + sent.atMs,
    endMs: answeredMs === undefined ? server.endMs : offsetMs + answeredMs,
    attributes: {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "svc",
      "gen_ai.request.model": model,
      "gen_ai.response.model": finished && model,
      "gen_ai.response.finish_reasons": finishReasons,
      "gen_ai.usage.input_tokens": usage?.inputTokens,
      "gen_ai.usage.cache_read.input_tokens": usage?.cachedInputTokens,
      "gen_ai.usage.output_tokens": usage?.outputTokens,
      "gen_ai.usage.reasoning.output_tokens": usage?.reasoningTokens,
    },
    events: [
      ...eventAt("accepted", accepted && startMs + sent.atMs + accepted.queueMs),
      ...eventAt("first_delta", firstDeltaMs === undefined ? undefined : startMs + firstDeltaMs),
      ...tracedAttempts.slice(1).map(({ startedMs, continuedTokens }) => ({
        name: continuedTokens === undefined ? "retry" : "continuation",
        atMs: offsetMs + startedMs,
      })),
      ...eventAt("finish", finished && startMs + finished.atMs),
    ].sort((one, other) => one.atMs - other.atMs),
    error: server.error,
  };
}

function attemptSpan(
  { endpoint, spanId, startedMs, continuedTokens, end }: TracedAttempt,
  index: number,
  chat: Span,
  offsetMs: number,
): Span {
  // A call that still runs when its request has ended is being cancelled.
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
      "svc.continued_tokens": continuedTokens,
    },
    events: failure?.ending.kind === "stalled" ? eventAt("stall", endMs) : [],
    error: failure?.error.detail,
  };
}

function eventAt(name: string, atMs: number | undefined): SpanEvent[] {
  return atMs === undefined ? [] : [{ name, atMs }];
}
