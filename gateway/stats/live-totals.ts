import { noFirstTokens } from "./first-token-times.ts";

/** Totals of one model since the start; rates are differences of them. */
export type ModelTotals = {
  /** Completed requests. */
  requests: number;
  /** Requests that failed for a reason of the service. */
  errors: number;
  /** Running answers. */
  active: number;
  /** Deltas from engines. They stand for tokens while an answer runs, because engines send one per step. */
  deltas: number;
  /** Prompt tokens of requests whose engine reported cached tokens. */
  promptTokens: number;
  /** Of these, tokens expected in caches. */
  expectedTokens: number;
  /** Of these, cached tokens. */
  cachedTokens: number;
  /** Why no more of these prompts was cached, by reason; `hit` if there were no misses. */
  readonly cacheReasons: Map<string, CacheReasonTotals>;
  /** First tokens by latency, one count for each of `FIRST_TOKEN_BOUNDS_MS` and one for longer times. */
  readonly firstTokenCounts: number[];
};

/** Totals since the start of one reason for cache misses. */
export type CacheReasonTotals = {
  /** Requests with this reason. */
  requests: number;
  /** Tokens of their prompts that could have been cached and were not. */
  lostTokens: number;
};

/** Totals of one endpoint since the start. */
export type EndpointTotals = { deltas: number };

/**
 * Counts for the admin page, as plain numbers that are cheap enough for every delta. Models and endpoints are
 * configured names, so that callers cannot grow the tables.
 */
export class LiveTotals {
  /**
   * Requests that ended before their model was known, such as those refused by overload or a limit, and those of them
   * that failed for a reason of the service.
   */
  readonly withoutModel: Pick<ModelTotals, "requests" | "errors"> = { requests: 0, errors: 0 };
  readonly #models = new Map<string, ModelTotals>();
  readonly #endpoints = new Map<string, EndpointTotals>();

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

  endpoint(address: string): EndpointTotals {
    const known = this.#endpoints.get(address);
    if (known) return known;
    const totals = { deltas: 0 };
    this.#endpoints.set(address, totals);
    return totals;
  }

  /** Removes the endpoints that are not in `addresses`. Answers that still run on them are not counted. */
  keepEndpoints(addresses: ReadonlySet<string>): void {
    for (const address of this.#endpoints.keys()) if (!addresses.has(address)) this.#endpoints.delete(address);
  }
}
