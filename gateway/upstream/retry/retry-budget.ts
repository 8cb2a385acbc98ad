import type { RetryBudgetSettings } from "./retry-settings.ts";

/** A retry under way. */
export type RetryPermit = {
  /** When the retry is over. May be called again; counts once. */
  release(): void;
};

/** Keeps a cluster's retries in proportion to its requests: where all fail, retries must not double the load. */
export class RetryBudget {
  readonly #settings: RetryBudgetSettings;
  #active = 0;
  #overflows = 0;

  constructor(settings: RetryBudgetSettings) {
    this.#settings = settings;
  }

  get activeRetries(): number {
    return this.#active;
  }

  /** Envoy's `upstream_rq_retry_overflow`. */
  get overflows(): number {
    return this.#overflows;
  }

  /** `activeAndPending`: requests of the cluster that run or wait, retries included. Undefined: no retry now. */
  tryRetry(activeAndPending: number): RetryPermit | undefined {
    const { budgetPercent, minRetryConcurrency } = this.#settings;
    const allowed = Math.max(minRetryConcurrency, Math.floor((budgetPercent * activeAndPending) / 100));
    if (this.#active >= allowed) {
      this.#overflows += 1;
      return undefined;
    }
    this.#active += 1;
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        this.#active -= 1;
      },
    };
  }
}
