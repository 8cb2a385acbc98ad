import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Stats } from "../../stats/stats.ts";
import type { Tracing } from "../../tracing/tracing.ts";
import { addressOf, loggedNetwork } from "./client-address.ts";
import type { RequestFacts } from "./request-facts.ts";
import { requestOutcome } from "./request-outcome.ts";
import { traceRequest } from "./request-spans.ts";
import { recordRequest } from "./request-stats.ts";
import { responseFlags } from "./response-flags.ts";
import { userAgentFamily } from "./user-agent-family.ts";

export type RequestRecords = {
  readonly log: Logger;
  readonly stats: Stats;
  readonly clock: Clock;
  /** Undefined: no traces are exported. */
  readonly tracing: Tracing | undefined;
  /** Proxies in front that say in `x-forwarded-for` where a request came from. */
  readonly trustedHops: number;
};

/**
 * One line, one set of stats and perhaps a trace for every request, when its connection or its reply is over. The fields are
 * a list of their own: nothing gets into the log by being somewhere in a request.
 */
export function logWhenClosed(
  facts: RequestFacts,
  request: Pick<IncomingMessage, "method" | "socket" | "headers">,
  response: ServerResponse,
  { log, stats, clock, tracing, trustedHops }: RequestRecords,
): void {
  const { method, socket, headers } = request;
  const bytesBefore = socket.bytesWritten;
  // A closed socket has none.
  const address = addressOf(request, trustedHops);
  response.once("close", () => {
    const totalMs = clock.nowMs() - facts.startedMs;
    // No status line was sent: Envoy's code for a client that went away.
    const code = response.headersSent ? response.statusCode : 0;
    // A refusal of an unread body is complete before it ends. Of anything else that was cut, its route learns only now.
    if (!response.writableFinished && code < 400 && facts.endReason === undefined) {
      facts.endReason = "client_closed";
      facts.detail ??= "downstream_remote_disconnect";
    }
    const outcome = requestOutcome(code, facts.endReason);
    recordRequest(stats, facts, { code, outcome, totalMs });
    if (tracing) traceRequest(tracing, facts, { method, code, outcome, totalMs }, clock);
    const { usage, trip, trace } = facts;
    log.info(
      {
        request_id: facts.requestId,
        trace_id: trace.traceId,
        span_id: trace.spanId,
        method,
        route: facts.labels.route,
        format: facts.labels.format,
        code,
        stream: facts.stream,
        model: facts.model,
        end_reason: facts.endReason,
        response_flags: responseFlags({
          detail: facts.detail,
          endReason: facts.endReason,
          attempts: trip.attempts,
          begun: facts.firstDeltaMs !== undefined,
        }),
        detail: facts.detail,
        key_id: facts.principal?.keyId,
        owner: facts.principal?.owner ?? undefined,
        endpoint: trip.endpoint,
        attempts: trip.attempts || undefined,
        bytes_in: facts.bodyBytes || undefined,
        bytes_out: socket.bytesWritten - bytesBefore,
        prompt_tokens: usage?.inputTokens,
        cached_tokens: usage?.cachedInputTokens,
        output_tokens: usage?.outputTokens,
        reasoning_tokens: usage?.reasoningTokens,
        queue_ms: rounded(facts.queueMs),
        accept_ms: rounded(facts.acceptMs),
        ttft_ms: rounded(facts.firstDeltaMs),
        max_gap_ms: rounded(facts.maxGapMs),
        backpressure_ms: rounded(facts.backpressureMs),
        total_ms: Math.round(totalMs),
        client_ip: loggedNetwork(address),
        ua_family: userAgentFamily(headers["user-agent"]),
      },
      "request",
    );
  });
}

function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms);
}
