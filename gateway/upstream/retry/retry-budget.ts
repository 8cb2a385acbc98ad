import * as z from "zod";

/** The number of concurrent retries that are always allowed. */
const MIN_RETRY_CONCURRENCY = 3;

/** The schema of the retry budget, Envoy's `retry_budget`. */
export const retryBudgetSchema = z
  .strictObject({
    budgetPercent: z
      .number()
      .min(0)
      .max(100)
      .default(20)
      .describe(
        `The number of retries at once, in percent of the cluster's requests that run or wait; ${MIN_RETRY_CONCURRENCY} are always allowed.`,
      ),
  })
  .prefault({})
  .describe("How many retries the cluster may have under way; one that finds no room fails its request.");

/** A share of the retry budget, held by a running retry. */
export type RetryPermit = {
  /** Idempotent. */
  release(): void;
};

/** Keeps a cluster's retries in proportion to its requests: where all fail, retries must not double the load. */
export class RetryBudget {
  readonly #percent: number;
  #active = 0;
  #continuations = 0;
  #overflows = 0;

  constructor(percent: number) {
    this.#percent = percent;
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
   * Takes a share of the budget; undefined where there is none. `activeAndPending` is the number of the cluster's
   * running and pending requests, retries included.
   */
  tryRetry(activeAndPending: number): RetryPermit | undefined {
    if (this.#active >= Math.max(MIN_RETRY_CONCURRENCY, Math.floor((this.#percent * activeAndPending) / 100))) {
      this.#overflows += 1;
      return undefined;
    }
    this.#active += 1;
    return permit(() => {
      this.#active -= 1;
    });
  }

  /**
   * Counts a request that recovers from the loss of its endpoint. It needs no share, as it takes that of the lost
   * attempt, and leaves those of the retries free.
   */
  recover(): RetryPermit {
    this.#continuations += 1;
    return permit(() => {
      this.#continuations -= 1;
    });
  }
}

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
