import type { Logger } from "pino";
import type { CountTokensRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { toEngineError } from "../errors.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { NodeState } from "../node/node-state.ts";

type CountParts = {
  readonly backend: Backend;
  readonly state: NodeState;
  readonly metrics: EngineMetrics;
  readonly log: Logger;
};

/** One CountTokens call: admitted, counted, measured. Throws `EngineError`. */
export async function countTokensCall(
  { backend, state, metrics, log }: CountParts,
  request: CountTokensRequest,
  signal: AbortSignal,
): Promise<number> {
  const model = state.label(request.model);
  try {
    state.admit(request.model);
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
  }
}
