import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type Event, FinishReason } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError, toApiError } from "../../errors.ts";
import type { Format } from "../../formats/format.ts";
import { OUTCOMES } from "../../outcome.ts";
import type { EndpointTotals, LiveTotals } from "../../stats/live-totals.ts";
import type { RequestFacts } from "../record/request-facts.ts";
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
  const clientLeft = answer.signal.aborted && !running.stopped;
  facts.endReason ??= clientLeft ? "client_closed" : (OUTCOMES[shown.detail].end ?? "error");
  return shown;
}

function restarting(): ApiError {
  return new ApiError("server_is_overloaded", "The service is restarting. Please try again.", {
    detail: "drain_timeout",
    retryAfterMs: 1_000,
  });
}

/** An engine's refusal, with the field of the format that it is about. */
function located(error: ApiError, { fields }: Format): ApiError {
  if (error.path) return error;
  if (error.code === "context_length_exceeded") return error.at(fields.prompt);
  return error.code === "invalid_json_schema" ? error.at(fields.outputSchema) : error;
}
