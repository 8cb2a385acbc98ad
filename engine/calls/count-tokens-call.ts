import type { Logger } from "pino";
import type { CountTokensRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { toEngineError } from "../errors.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { NodeState } from "../node/node-state.ts";
import type { CountPlaces } from "./count-places.ts";

/** The parts of a node that a CountTokens call needs. */
type CountParts = {
  /** The backend that counts. */
  readonly backend: Backend;
  /** The places of which each count takes one. */
  readonly places: CountPlaces;
  /** The state of the node, which says whether it takes the request, and under which label the model is counted. */
  readonly state: NodeState;
  /** The metrics in which the call is counted. */
  readonly metrics: EngineMetrics;
  /** The log that tells of an unexpected failure. */
  readonly log: Logger;
};

/**
 * Answers one CountTokens call with the number of tokens in the rendered prompt, and counts how the call ended. Throws
 * `EngineError`, also when `signal` is aborted.
 */
export async function countTokensCall(
  { backend, places, state, metrics, log }: CountParts,
  request: CountTokensRequest,
  signal: AbortSignal,
): Promise<number> {
  const model = state.label(request.model);
  let leave = () => {};
  try {
    state.admit(request.model);
    leave = places.take(request.tenant);
    const inputTokens = await backend.countTokens(request, signal);
    metrics.counts.inc({ model, reason: "ok" });
    return inputTokens;
  } catch (error) {
    const failure = toEngineError(signal.aborted ? signal.reason : error);
    const { reason, cause } = failure;
    metrics.counts.inc({ model, reason });
    // Only the kind of an unexpected error: its text may hold what the caller sent.
    if (reason === "ENGINE_ERROR")
      log.error({ model, outcome: reason, cause: cause instanceof Error ? cause.name : undefined }, "count tokens");
    throw failure;
  } finally {
    leave();
  }
}
