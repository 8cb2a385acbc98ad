import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError, toApiError } from "../../errors.ts";
import type { Format } from "../../formats/format.ts";
import type { EndpointTotals, LiveTotals } from "../../stats/live-totals.ts";
import type { EndReason, RequestFacts } from "../record/request-facts.ts";
import type { RunningAnswer, RunningAnswers } from "./running-answers.ts";

/** Notes when the engine takes the request up, the first delta and the end. On the path of every delta. */
export function observer(facts: RequestFacts, model: string, clock: Clock, live: LiveTotals) {
  const sentMs = clock.nowMs();
  facts.sentMs = sentMs - facts.startedMs;
  const totals = live.model(model);
  let onEndpoint: EndpointTotals | undefined;
  const first = () => {
    const nowMs = clock.nowMs();
    facts.firstDeltaMs = nowMs - facts.startedMs;
    totals.firstTokens.add(facts.firstDeltaMs, nowMs);
    live.firstTokens.add(facts.firstDeltaMs, nowMs);
  };
  return (events: readonly Event[]): void => {
    for (const { kind } of events) {
      if (kind?.$case === "blockDelta") {
        if (facts.firstDeltaMs === undefined) first();
        facts.grant?.delta();
        totals.deltas += 1;
        if (onEndpoint) onEndpoint.deltas += 1;
      } else if (kind?.$case === "started") {
        facts.grant?.started(kind.value);
        const nowMs = clock.nowMs();
        facts.queueMs = nowMs - sentMs;
        facts.acceptMs = facts.trip.sentMs === undefined ? undefined : nowMs - facts.trip.sentMs;
        // A repeated try is on another one.
        onEndpoint = facts.trip.endpoint === undefined ? undefined : live.endpoint(facts.trip.endpoint);
      } else if (kind?.$case === "finished") {
        facts.finishedMs = clock.nowMs() - facts.startedMs;
        facts.usage = kind.value.usage;
        facts.finishReason = kind.value.reason;
        const cut =
          kind.value.reason === FinishReason.MAX_OUTPUT_TOKENS || kind.value.reason === FinishReason.CONTEXT_WINDOW;
        facts.endReason = cut ? "length" : "complete";
      }
    }
  };
}

/** Notes why an answer failed, and gives the error that the caller shall see. */
export function failureOf(
  thrown: unknown,
  facts: RequestFacts,
  format: Format,
  answer: RunningAnswer,
  running: RunningAnswers,
): ApiError {
  const shown = running.stopped ? restarting() : located(toApiError(thrown), format);
  facts.detail ??= shown.detail;
  facts.endReason ??= endReasonOf(shown, answer.signal.aborted && !running.stopped);
  return shown;
}

const DRAIN_TIMEOUT = "drain_timeout";

function restarting(): ApiError {
  return new ApiError("server_is_overloaded", "The service is restarting. Please try again.", {
    detail: DRAIN_TIMEOUT,
    retryAfterMs: 1_000,
  });
}

/** An engine's refusal, with the field of the format that it is about. */
function located(error: ApiError, { fields }: Format): ApiError {
  if (error.path) return error;
  if (error.code === "context_length_exceeded") return error.at(fields.prompt);
  return error.code === "invalid_json_schema" ? error.at(fields.outputSchema) : error;
}

/** Tokens of engines that kept their connection and said nothing. */
const SILENCE: ReadonlySet<string> = new Set([
  "upstream_accept_timeout",
  "upstream_per_try_timeout",
  "upstream_per_try_idle_timeout",
  "upstream_inter_token_timeout",
]);

/** Tokens of requests that no engine was asked to work on, or that it had no room for. */
const NO_ROOM: ReadonlySet<string> = new Set([
  "upstream_queue_full",
  "upstream_pending_overflow",
  "upstream_pending_timeout",
  "no_healthy_upstream",
]);

function endReasonOf({ code, detail }: ApiError, clientLeft: boolean): EndReason {
  if (clientLeft) return "client_closed";
  if (detail === DRAIN_TIMEOUT) return "drain";
  if (SILENCE.has(detail)) return "stall";
  if (NO_ROOM.has(detail)) return "shed";
  // Tries that all failed end as an overload for the caller.
  if (code === "engine_unavailable" || code === "server_is_overloaded") return "engine_died";
  return code === "timeout" ? "deadline" : "error";
}
