import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { FinishReason, type Usage } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { OUTCOMES, type ResponseFlag } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import type { Tracing } from "../../tracing/tracing.ts";
import { loggedNetwork } from "./client-address.ts";
import type { ClosedRequest, RequestRecord } from "./request-record.ts";
import { traceRequest } from "./request-spans.ts";

export type RecordSinks = {
  readonly log: Logger;
  readonly stats: Stats;
  readonly clock: Clock;
  /** Undefined if traces are not exported. */
  readonly tracing: Tracing | undefined;
  /** Number of proxies in front that append to `x-forwarded-for`; at 0 the header is ignored. */
  readonly trustedHops: number;
};

/** Calls `writeDown` when the reply of the request, or its connection, has ended. */
export function logWhenClosed(
  record: RequestRecord,
  { method, socket, headers }: Pick<IncomingMessage, "method" | "socket" | "headers">,
  response: ServerResponse,
  address: string,
  sinks: RecordSinks,
): void {
  const bytesBefore = socket.bytesWritten;
  response.on("close", () => {
    // No status line was sent: Envoy's code for a disconnected client.
    const closed = record.closed(response.headersSent ? response.statusCode : 0, response.writableFinished);
    const surroundings = { method, address, headers, bytesOut: socket.bytesWritten - bytesBefore };
    writeDown(closed, surroundings, sinks);
  });
}

export type ClosedSurroundings = {
  readonly method: string | undefined;
  /** Name of the final gRPC status. Default: not a gRPC call. */
  readonly grpcStatus?: string | undefined;
  /** Fields of a frame of a WebSocket, or of the socket at its end. Default: none. */
  readonly socket?: { readonly transport: "websocket"; readonly continued?: boolean; readonly socket_end?: string };
  readonly address: string;
  readonly headers: IncomingHttpHeaders;
  readonly bytesOut: number;
};

/** Counts a completed request, and writes its log line, and its spans if sampled. */
export function writeDown(
  closed: ClosedRequest,
  { method, grpcStatus, socket, address, headers, bytesOut }: ClosedSurroundings,
  { log, stats, clock, tracing, trustedHops }: RecordSinks,
): void {
  countRequest(stats, closed);
  if (tracing) traceRequest(tracing, closed, { method, grpcStatus }, clock);
  if (!log.isLevelEnabled("info")) return;
  const caller = {
    grpc_status: grpcStatus,
    ...socket,
    client_ip: loggedNetwork(address),
    client_request_id: trustedHops > 0 ? idOfProxy(headers["x-request-id"]) : undefined,
    ua_family: userAgentFamily(headers["user-agent"]),
  };
  log.info(lineOf(closed, method, bytesOut, caller), "request");
}

const REASON_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(FinishReason).map(([name, value]) => [value, name.toLowerCase()]),
);

/** Counts a completed request. Models are catalog ids, not the caller's text, so that callers cannot create series. */
export function countRequest(stats: Stats, request: ClosedRequest): void {
  const { code, outcome, totalMs, parsed, sent, accepted, cache, firstDeltaMs, finished } = request;
  const { route, format, operation } = request.labels;
  stats.httpRequests.inc({ route, format, code, outcome });
  if (!parsed) return;
  const { model, stream } = parsed;
  stats.requestDuration.observe({ operation, model, outcome }, totalMs / 1000);
  if (sent && accepted) stats.queueWait.observe({ model, class: sent.priorityClass }, accepted.queueMs / 1000);
  if (firstDeltaMs !== undefined)
    stats.timeToFirstToken.observe({ model, cache: cacheUse(finished?.usage) }, firstDeltaMs / 1000);
  if (cache) {
    stats.cacheReasons.inc({ model, reason: cache.reason });
    stats.cacheLostTokens.inc({ model, reason: cache.reason }, cache.lostTokens);
  }
  if (!finished) return;
  stats.answers.inc({ model, reason: REASON_NAMES.get(finished.reason) ?? "other" });
  const { usage } = finished;
  if (!usage) return;
  stats.tokens.observe({ model, token_type: "input" }, usage.inputTokens);
  stats.tokens.observe({ model, token_type: "cached" }, usage.cachedInputTokens);
  stats.tokens.observe({ model, token_type: "output" }, usage.outputTokens);
  stats.tokens.observe({ model, token_type: "reasoning" }, usage.reasoningTokens);
  if (!stream) stats.foldedTokens.set(model, (stats.foldedTokens.get(model) ?? 0) + usage.outputTokens);
  if (firstDeltaMs !== undefined && usage.outputTokens > 1)
    stats.timePerOutputToken.observe({ model }, (finished.atMs - firstDeltaMs) / 1000 / (usage.outputTokens - 1));
}

/** Returns whether the prompt was read from the cache; `unknown` for a request that did not succeed. */
export function cacheUse(usage: Usage | undefined): "hit" | "partial" | "miss" | "unknown" {
  if (!usage || usage.inputTokens === 0) return "unknown";
  if (usage.cachedInputTokens === 0) return "miss";
  return usage.cachedInputTokens * 2 >= usage.inputTokens ? "hit" : "partial";
}

/** Flags of failures that are retried: after several attempts, all of them failed. */
const OF_ATTEMPTS: ReadonlySet<ResponseFlag> = new Set(["UH", "UF", "UC", "UR", "UO", "UT", "UPE"]);

/** Returns the response flags of a completed request in Envoy's form: joined by commas, `-` for none. */
export function responseFlags({
  detail,
  endReason,
  attempts,
  firstDeltaMs,
}: Pick<ClosedRequest, "detail" | "endReason" | "attempts" | "firstDeltaMs">): string {
  if (endReason === "client_closed") return "DC";
  if (endReason === "slow_reader") return "SI";
  if (detail === undefined) return "-";
  const { flag, final = false } = OUTCOMES[detail];
  if (flag === undefined) return "-";
  // No retry follows the first delta.
  const attemptsFailed = attempts > 1 && firstDeltaMs === undefined && OF_ATTEMPTS.has(flag) && !final;
  return attemptsFailed ? `${flag},URX` : flag;
}

/** Returns the fields of a log line. They are an explicit list, so that no other data of a request is logged. */
function lineOf(request: ClosedRequest, method: string | undefined, bytesOut: number, caller: object): object {
  const { trace, labels, principal, parsed, accepted, cache } = request;
  const usage = request.finished?.usage;
  return {
    request_id: request.requestId,
    trace_id: trace.traceId,
    span_id: trace.spanId,
    method,
    route: labels.route,
    format: labels.format,
    code: request.code,
    stream: parsed?.stream,
    model: parsed?.model,
    end_reason: request.endReason,
    response_flags: responseFlags(request),
    detail: request.detail,
    key_id: principal?.keyId,
    owner: principal?.owner ?? undefined,
    sealed_unopened: parsed?.unopened || undefined,
    endpoint: request.endpoint,
    prefilled_on: request.prefilledOn,
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
    queue_ms: rounded(accepted?.queueMs),
    accept_ms: rounded(accepted?.acceptMs),
    ttft_ms: rounded(request.firstDeltaMs),
    max_gap_ms: rounded(request.maxGapMs),
    backpressure_ms: rounded(request.backpressureMs),
    total_ms: Math.round(request.totalMs),
    ...caller,
  };
}

/** Forms of request ids from proxies: UUIDs, as from Envoy, and hexadecimal digits. Other text would be a caller's. */
const PROXY_ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,64})$/i;

/** Returns the request id of a proxy in front, as in its log; undefined for any other text. */
function idOfProxy(id: string | string[] | undefined): string | undefined {
  return typeof id === "string" && PROXY_ID.test(id) ? id : undefined;
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}

/** Kinds of callers by the start of their `user-agent`, whose text is never logged; first match wins. */
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

/** Returns the kind of client program: one of a fixed list, `other`, or undefined without the header. */
export function userAgentFamily(userAgent: string | undefined): string | undefined {
  if (userAgent === undefined || userAgent === "") return undefined;
  const start = userAgent.slice(0, 32).toLowerCase();
  return FAMILIES.find(([prefix]) => start.startsWith(prefix))?.[1] ?? "other";
}
