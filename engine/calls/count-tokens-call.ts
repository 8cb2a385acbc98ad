import type { Logger } from "pino";
import type { CountTokensRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Backend } from "../backend.ts";
import { EngineError, toEngineError } from "../errors.ts";
import type { EngineMetrics } from "../metrics/engine-metrics.ts";
import type { NodeState } from "../node/node-state.ts";

const MAX_OF_TENANT = 16;
const MAX_COUNTS = 256;

/** Limits concurrent token counts of a node, as they take no slot, and those of each tenant. */
export class CountPermits {
  readonly #taken = new Map<string, number>();
  #count = 0;

  /** Takes a permit, and returns the function that releases it. Throws `EngineError` QUEUE_FULL if none is free. */
  take(tenant: string): () => void {
    const taken = this.#taken.get(tenant) ?? 0;
    if (taken >= MAX_OF_TENANT || this.#count >= MAX_COUNTS)
      throw new EngineError("QUEUE_FULL", "Too many token counts are under way.");
    this.#taken.set(tenant, taken + 1);
    this.#count += 1;
    return () => {
      this.#count -= 1;
      const left = (this.#taken.get(tenant) ?? 1) - 1;
      if (left === 0) this.#taken.delete(tenant);
      else this.#taken.set(tenant, left);
    };
  }
}

type CountParts = {
  readonly backend: Backend;
  readonly permits: CountPermits;
  readonly state: NodeState;
  readonly metrics: EngineMetrics;
  readonly log: Logger;
};

/** Answers one CountTokens call, and counts its outcome. Throws `EngineError`, also when `signal` is aborted. */
export async function countTokensCall(
  { backend, permits, state, metrics, log }: CountParts,
  request: CountTokensRequest,
  signal: AbortSignal,
): Promise<number> {
  const model = state.label(request.model);
  let leave = () => {};
  try {
    state.admit(request.model);
    leave = permits.take(request.tenant);
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
