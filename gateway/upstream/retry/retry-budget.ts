const MIN_RETRY_CONCURRENCY = 16;
/** The share of a cluster's running and waiting requests that may be retries. */
const BUDGET_SHARE = 0.2;

/**
 * How a retry counts towards the budget: `budget` needs a share of it; `recovery` from the loss of an endpoint is
 * counted and always allowed, as it takes the slot of the lost attempt; `none` is not counted, as no endpoint had worked
 * on the request.
 */
export type RetryShare = CountedShare | "none";

type CountedShare = "budget" | "recovery";

/** Keeps a cluster's retries in proportion to its requests: where all fail, retries must not double the load. */
export class RetryBudget {
  readonly #active = { budget: 0, recovery: 0 };
  /** The number of retries refused by the budget: Envoy's `upstream_rq_retry_overflow`. */
  overflows = 0;

  get activeRetries(): number {
    return this.#active.budget;
  }

  /** The number of requests that wait for an endpoint after the loss of theirs, or that it has sent nothing yet. */
  get activeContinuations(): number {
    return this.#active.recovery;
  }

  /** Takes a share until `free`; false where there is none. `activeAndPending` includes retries. */
  take(share: CountedShare, activeAndPending: number): boolean {
    const most = Math.max(MIN_RETRY_CONCURRENCY, Math.floor(BUDGET_SHARE * activeAndPending));
    if (share === "budget" && this.#active.budget >= most) {
      this.overflows += 1;
      return false;
    }
    this.#active[share] += 1;
    return true;
  }

  free(share: CountedShare): void {
    this.#active[share] -= 1;
  }
}
