import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Stats } from "../../stats/stats.ts";
import type { Tracing } from "../../tracing/tracing.ts";
import { addressOf, loggedNetwork } from "./client-address.ts";
import type { ClosedRequest, RequestRecord } from "./request-record.ts";
import { traceRequest } from "./request-spans.ts";
import { countRequest } from "./request-stats.ts";
import { responseFlags } from "./response-flags.ts";

/** The places at which requests that are over are written down. */
export type RecordSinks = {
  /** The log that gets one line for each request. */
  readonly log: Logger;
  /** The statistics in which each request counts. */
  readonly stats: Stats;
  /** The clock of how long requests took. */
  readonly clock: Clock;
  /** Exports traces; undefined where none is exported. */
  readonly tracing: Tracing | undefined;
  /** The number of proxies in front that add to `x-forwarded-for`; at 0 the header means nothing. */
  readonly trustedHops: number;
  /** Returns whether a request that ended well gets its line; all others get theirs anyway. */
  readonly sampled: () => boolean;
};

/**
 * Writes one line of the log, one set of statistics and perhaps a trace of every request, when its reply or connection
 * is over.
 */
export function logWhenClosed(
  record: RequestRecord,
  request: Pick<IncomingMessage, "method" | "socket" | "headers">,
  response: ServerResponse,
  sinks: RecordSinks,
): void {
  const { method, socket, headers } = request;
  const bytesBefore = socket.bytesWritten;
  // A closed socket has none.
  const address = addressOf(request, sinks.trustedHops);
  response.on("close", () => {
    // No status line was sent: Envoy's code for a client that went away.
    const closed = record.closed(response.headersSent ? response.statusCode : 0, response.writableFinished);
    const surroundings = { method, address, headers, bytesOut: socket.bytesWritten - bytesBefore };
    writeDown(closed, surroundings, sinks);
  });
}

/** What is written down of a request that is over beside its record. */
export type ClosedSurroundings = {
  /** The HTTP method of the request. */
  readonly method: string | undefined;
  /** The name of the gRPC status that the call ended with. Default: the request was none of gRPC. */
  readonly grpcStatus?: string | undefined;
  /** The address that the request came from. */
  readonly address: string;
  /** The headers of the request. */
  readonly headers: IncomingHttpHeaders;
  /** The bytes that were written to the caller. */
  readonly bytesOut: number;
};

/** Counts a request that is over, and writes its line and its spans where it gets them. */
export function writeDown(
  closed: ClosedRequest,
  { method, grpcStatus, address, headers, bytesOut }: ClosedSurroundings,
  { log, stats, clock, tracing, trustedHops, sampled }: RecordSinks,
): void {
  countRequest(stats, closed);
  if (tracing) traceRequest(tracing, closed, { method, grpcStatus }, clock);
  if (endedWell(closed) && !sampled()) return;
  const caller = {
    grpc_status: grpcStatus,
    client_ip: loggedNetwork(address),
    client_request_id: trustedHops > 0 ? idOfProxy(headers["x-request-id"]) : undefined,
    ua_family: userAgentFamily(headers["user-agent"]),
  };
  log.info(lineOf(closed, method, bytesOut, caller), "request");
}

function endedWell({ code, detail, endReason }: ClosedRequest): boolean {
  return code >= 100 && code < 400 && detail === undefined && (endReason ?? "complete") === "complete";
}

/**
 * Returns the fields of a request's line. They are a list of their own: nothing gets into the log by being somewhere in
 * a request.
 */
function lineOf(request: ClosedRequest, method: string | undefined, bytesOut: number, caller: object): object {
  const { usage, trace, labels, principal, cache } = request;
  return {
    request_id: request.requestId,
    trace_id: trace.traceId,
    span_id: trace.spanId,
    method,
    route: labels.route,
    format: labels.format,
    code: request.code,
    stream: request.stream,
    model: request.model,
    end_reason: request.endReason,
    response_flags: responseFlags(request),
    detail: request.detail,
    key_id: principal?.keyId,
    owner: principal?.owner ?? undefined,
    endpoint: request.endpoint,
    attempts: request.attempts || undefined,
    continuations: request.continuations || undefined,
    not_kept: request.notKept,
    prefill_overdue: request.overdue || undefined,
    bytes_in: request.bodyBytes || undefined,
    bytes_out: bytesOut,
    prompt_tokens: usage?.inputTokens,
    cached_tokens: usage?.cachedInputTokens,
    output_tokens: usage?.outputTokens,
    cache_expected_tokens: cache?.expectedTokens,
    cache_lost_tokens: cache?.lostTokens || undefined,
    cache_reason: cache?.reason,
    cache_changed_message: cache?.changedMessage,
    reasoning_tokens: usage?.reasoningTokens,
    queue_ms: rounded(request.queueMs),
    accept_ms: rounded(request.acceptMs),
    ttft_ms: rounded(request.firstDeltaMs),
    max_gap_ms: rounded(request.maxGapMs),
    backpressure_ms: rounded(request.backpressureMs),
    total_ms: Math.round(request.totalMs),
    ...caller,
  };
}

/**
 * The forms of ids that proxies give to requests: UUIDs, as Envoy and others do, and plain hexadecimal digits. Other
 * words in the header would be a caller's.
 */
const PROXY_ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,64})$/i;

/** Returns the id that a proxy in front gave to a request, by which its log names it; undefined for any other text. */
function idOfProxy(id: string | string[] | undefined): string | undefined {
  return typeof id === "string" && PROXY_ID.test(id) ? id : undefined;
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}

/**
 * The kinds of callers that an operator wants to tell apart, by how their `user-agent` begins; first match wins. The
 * words of the header itself are the caller's and get nowhere.
 */
const FAMILIES: readonly (readonly [start: string, family: string])[] = [
  ["claude-cli/", "claude-code"],
  ["codex", "codex"],
  ["opencode/", "opencode"],
  ["copilot", "copilot"],
  ["githubcopilot", "copilot"],
  ["cline", "cline"],
  ["qwencode", "qwen-code"],
  ["openai/js", "openai-node"],
  ["openai/python", "openai-python"],
  ["asyncopenai/python", "openai-python"],
  ["anthropic/js", "anthropic-node"],
  ["anthropic/python", "anthropic-python"],
  ["asyncanthropic/python", "anthropic-python"],
  ["agents/", "openai-agents"],
  ["langchain", "langchain"],
  ["ai/", "ai-sdk"],
  ["ai-sdk/", "ai-sdk"],
  ["litellm", "litellm"],
  ["curl/", "curl"],
  ["python", "python"],
  ["go-http-client/", "go"],
  ["node", "node"],
  ["undici", "node"],
  ["mozilla/", "browser"],
];

/**
 * Returns the kind of program that sent a request: one of a fixed list, `other`, or undefined where it does not say.
 */
export function userAgentFamily(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined || userAgent === "") return undefined;
  const start = userAgent.slice(0, 32).toLowerCase();
  return FAMILIES.find(([prefix]) => start.startsWith(prefix))?.[1] ?? "other";
}
