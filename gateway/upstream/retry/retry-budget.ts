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

  /** The number of answers that are being continued: they wait for another engine, or it has not caught up yet. */
  get activeContinuations(): number {
    return this.#continuations;
  }

  /** The number of retries and continuations so far that the budget did not allow: Envoy's `upstream_rq_retry_overflow`. */
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
   * Takes a place in the budget for going on with an answer; undefined where there is none now. Continuations have
   * `budgetPercent` of the requests, which the retries under way take from, too; the retries keep what is theirs, or the
   * answers of a lost engine would leave nothing for the requests that were still in its prefill. `activeAndPending` is
   * the number of requests of the cluster that run or wait; answers that are being continued come on top.
   */
  tryContinue(activeAndPending: number, budgetPercent: number): RetryPermit | undefined {
    const requests = activeAndPending + this.#continuations;
    const allowed = Math.max(this.#settings.minRetryConcurrency, Math.floor((budgetPercent * requests) / 100));
    if (this.#active + this.#continuations >= allowed) {
      this.#overflows += 1;
      return undefined;
    }
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
