import type { Logger } from "pino";
import type { CountTokensRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { toEngineError } from "../errors.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { NodeState } from "../node/node-state.ts";
import type { CountPlaces } from "./count-places.ts";

type CountParts = {
  readonly backend: Backend;
  readonly places: CountPlaces;
  /** The state of the node, which admits the request and gives the model's metric label. */
  readonly state: NodeState;
  readonly metrics: EngineMetrics;
  readonly log: Logger;
};

/**
 * Answers one CountTokens call with the number of tokens in the rendered prompt, and counts its outcome. Throws
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
    // Only the error name: the text of an unexpected error may contain caller input.
    if (reason === "ENGINE_ERROR")
      log.error({ model, outcome: reason, cause: cause instanceof Error ? cause.name : undefined }, "count tokens");
    throw failure;
  } finally {
    leave();
  }
}
