import { noFirstTokens } from "./first-token-times.ts";

/** The totals of one model since the start; whoever shows rates takes differences. */
export type ModelTotals = {
  /** The number of requests that are over. */
  requests: number;
  /** The number of requests that failed for a reason of the service. */
  errors: number;
  /** The number of answers that are under way. */
  active: number;
  /**
   * The number of deltas that engines sent. They stand for tokens while an answer runs, as engines send one per step.
   */
  deltas: number;
  /** The tokens of prompts of which an engine told what was in its cache. */
  promptTokens: number;
  /** The tokens of these prompts that were expected in caches. */
  expectedTokens: number;
  /** The tokens of these prompts that were in caches. */
  cachedTokens: number;
  /** Why not more of these prompts was in caches, by the reason's name: `hit` where nothing needs explaining. */
  readonly cacheReasons: Map<string, CacheReasonTotals>;
  /** The number of first tokens by the time until them, a place for each of `FIRST_TOKEN_BOUNDS_MS` and one beyond. */
  readonly firstTokenCounts: number[];
};

/** The totals of one reason why prompts were not in caches as far as they might have been, since the start. */
export type CacheReasonTotals = {
  /** The number of requests of which it was the reason. */
  requests: number;
  /** The tokens of their prompts that might have been in the cache and were not. */
  lostTokens: number;
};

/** The totals of one endpoint since the start: the number of deltas that it sent. */
export type EndpointTotals = { deltas: number };

/**
 * Counts for the admin page, as plain numbers that the path of every delta can add to. Models and endpoints are words
 * of ours, so neither table can be made to grow.
 */
export class LiveTotals {
  /**
   * The requests that ended before their model was known, such as those that overload or a limit refused, and how many of
   * them failed for a reason of the service.
   */
  readonly withoutModel: Pick<ModelTotals, "requests" | "errors"> = { requests: 0, errors: 0 };
  readonly #models = new Map<string, ModelTotals>();
  readonly #endpoints = new Map<string, EndpointTotals>();

  /** Returns the totals of a model, which start at 0. */
  model(id: string): ModelTotals {
    const known = this.#models.get(id);
    if (known) return known;
    const counts = {
      requests: 0,
      errors: 0,
      active: 0,
      deltas: 0,
      promptTokens: 0,
      expectedTokens: 0,
      cachedTokens: 0,
    };
    const totals = { ...counts, cacheReasons: new Map(), firstTokenCounts: noFirstTokens() };
    this.#models.set(id, totals);
    return totals;
  }

  /** Returns the totals of an endpoint, which start at 0. */
  endpoint(address: string): EndpointTotals {
    const known = this.#endpoints.get(address);
    if (known) return known;
    const totals = { deltas: 0 };
    this.#endpoints.set(address, totals);
    return totals;
  }

  /** Forgets the endpoints that are not among `addresses`. Answers that still run on them count for nobody. */
  keepEndpoints(addresses: ReadonlySet<string>): void {
    for (const address of this.#endpoints.keys()) if (!addresses.has(address)) this.#endpoints.delete(address);
  }
}
