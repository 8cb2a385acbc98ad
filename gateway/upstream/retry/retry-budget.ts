import type { RetryBudgetSettings } from "./retry-settings.ts";

/** A place in the retry budget, held by a running retry. */
export type RetryPermit = {
  /** Releases the place at the end of the retry. Idempotent. */
  release(): void;
};

/** Keeps a cluster's retries in proportion to its requests: where all fail, retries must not double the load. */
export class RetryBudget {
  readonly #settings: RetryBudgetSettings;
  #active = 0;
  #continuations = 0;
  #overflows = 0;

  constructor(settings: RetryBudgetSettings) {
    this.#settings = settings;
  }

  /** The number of running retries. */
  get activeRetries(): number {
    return this.#active;
  }

  /**
   * The number of requests recovering from the loss of their endpoint: they wait for another one, or it has generated
   * nothing yet.
   */
  get activeContinuations(): number {
    return this.#continuations;
  }

  /** The number of retries refused by the budget: Envoy's `upstream_rq_retry_overflow`. */
  get overflows(): number {
    return this.#overflows;
  }

  /**
   * Takes a place in the budget; undefined where there is none. `activeAndPending` is the number of the cluster's
   * running and pending requests, retries included.
   */
  tryRetry(activeAndPending: number): RetryPermit | undefined {
    const { budgetPercent, minRetryConcurrency } = this.#settings;
    const allowed = Math.max(minRetryConcurrency, Math.floor((budgetPercent * activeAndPending) / 100));
    if (this.#active >= allowed) {
      this.#overflows += 1;
      return undefined;
    }
    this.#active += 1;
    return permit(() => {
      this.#active -= 1;
    });
  }

  /**
   * Counts a request that recovers from the loss of its endpoint: its answer is continued, or restarted. It needs no
   * place, as it takes that of the lost attempt, and leaves those of the retries free.
   */
  recover(): RetryPermit {
    this.#continuations += 1;
    return permit(() => {
      this.#continuations -= 1;
    });
  }
}

/** Returns a place in the budget; `release` is called at most once. */
function permit(release: () => void): RetryPermit {
  let held = true;
  return {
    release: () => {
      if (!held) return;
      held = false;
      release();
    },
  };
}
