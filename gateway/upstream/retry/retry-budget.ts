import type { RetryBudgetSettings } from "./retry-settings.ts";

/** A place in the retry budget, held by a retry under way. */
export type RetryPermit = {
  /** Gives the place back when the retry is over. A second call does nothing. */
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

  /** The number of retries that are under way. */
  get activeRetries(): number {
    return this.#active;
  }

  /** The number of requests that recover from the loss of their endpoint: they wait for another one, or it has not got on yet. */
  get activeContinuations(): number {
    return this.#continuations;
  }

  /** The number of retries so far that the budget did not allow: Envoy's `upstream_rq_retry_overflow`. */
  get overflows(): number {
    return this.#overflows;
  }

  /**
   * Takes a place in the budget; undefined where there is none now. `activeAndPending` is the number of requests of the
   * cluster that run or wait, retries included.
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
   * Counts a request that recovers from the loss of its endpoint: its answer is continued, or it is begun anew. It needs
   * no place, as it takes that of the attempt which was lost, and leaves those of the retries free.
   */
  recover(): RetryPermit {
    this.#continuations += 1;
    return permit(() => {
      this.#continuations -= 1;
    });
  }
}

/** Makes a place in the budget; `release` is called at most once. */
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
