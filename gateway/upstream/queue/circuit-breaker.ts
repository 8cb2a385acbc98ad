/**
 * The limits on a cluster's running and pending requests, as in Envoy's `circuit_breakers.thresholds`; each is at least
 * 0.
 */
export type CircuitBreakerLimits = {
  readonly maxRequests: number;
  readonly maxPendingRequests: number;
};

/** The number of pending requests for each slot of the endpoints. */
export const PENDING_PER_SLOT = 4;
/** The most pending requests, regardless of slots: one process cannot hold more. */
export const MAX_PENDING_REQUESTS = 512;

/**
 * Returns the limits for the slots of a cluster's available endpoints: one running and four pending requests for each
 * slot, and at most 512 pending ones.
 */
export function limitsForSlots(slots: number): CircuitBreakerLimits {
  return { maxRequests: slots, maxPendingRequests: Math.min(PENDING_PER_SLOT * slots, MAX_PENDING_REQUESTS) };
}

/** A place under a limit, which its holder releases. */
export type Permit = {
  /** Idempotent. */
  release(): void;
};

/** The remaining capacity of a circuit breaker, as Envoy's `remaining_*` and `*_open`. */
export type CircuitBreakerState = {
  readonly remainingRequests: number;
  readonly remainingPending: number;
  /** Whether no further request may run. */
  readonly requestsOpen: boolean;
  /** Whether no further request may wait. */
  readonly pendingOpen: boolean;
  /** The number of requests refused a run since the start. */
  readonly requestOverflows: number;
  /** The number of requests refused a wait since the start. */
  readonly pendingOverflows: number;
};

/** Counts a cluster's requests against its limits, which may change at any time; running requests are not affected. */
export class CircuitBreaker {
  #limits: CircuitBreakerLimits;
  #requests = 0;
  #pending = 0;
  #counts = 0;
  readonly #onEndpoint = new Map<string, number>();
  #requestOverflows = 0;
  #pendingOverflows = 0;

  constructor(limits: CircuitBreakerLimits) {
    this.#limits = limits;
  }

  /** Replaces the limits. Running and pending requests are not affected. */
  setLimits(limits: CircuitBreakerLimits): void {
    this.#limits = limits;
  }

  /** The current limit on running requests. */
  get maxRequests(): number {
    return this.#limits.maxRequests;
  }

  /** Whether the limit on running requests is reached. */
  get isFull(): boolean {
    return this.#requests >= this.#limits.maxRequests;
  }

  /** The number of running and pending requests. */
  get activeAndPending(): number {
    return this.#requests + this.#pending;
  }

  /**
   * Returns whether the cluster has room for one more request, and so has the endpoint, which takes at most
   * `maxRequests` concurrently.
   */
  hasRoom(address: string, maxRequests: number): boolean {
    return !this.isFull && this.requestsOn(address) < maxRequests;
  }

  /** Returns the number of running requests on an endpoint. */
  requestsOn(address: string): number {
    return this.#onEndpoint.get(address) ?? 0;
  }

  /**
   * Takes a place for a request on an endpoint that takes at most `maxRequests` concurrently. Returns undefined, and
   * counts an overflow, when there is none.
   */
  tryRequest(address: string, maxRequests: number): Permit | undefined {
    if (!this.hasRoom(address, maxRequests)) {
      this.#requestOverflows += 1;
      return undefined;
    }
    this.#requests += 1;
    this.#onEndpoint.set(address, this.requestsOn(address) + 1);
    return permit(() => {
      this.#requests -= 1;
      const left = this.requestsOn(address) - 1;
      if (left > 0) this.#onEndpoint.set(address, left);
      else this.#onEndpoint.delete(address);
    });
  }

  /** The number of running token counts. */
  get activeCounts(): number {
    return this.#counts;
  }

  /** Takes a place for a token count, of which at most `maxCounts` run. Returns undefined when there is none. */
  tryCount(maxCounts: number): Permit | undefined {
    if (this.#counts >= maxCounts) return undefined;
    this.#counts += 1;
    return permit(() => {
      this.#counts -= 1;
    });
  }

  /** Takes a place for a pending request. Returns undefined, and counts an overflow, when there is none. */
  tryPending(): Permit | undefined {
    if (this.#pending >= this.#limits.maxPendingRequests) {
      this.#pendingOverflows += 1;
      return undefined;
    }
    this.#pending += 1;
    return permit(() => {
      this.#pending -= 1;
    });
  }

  /** The remaining capacity under the current limits. */
  get state(): CircuitBreakerState {
    const remainingRequests = Math.max(0, this.#limits.maxRequests - this.#requests);
    const remainingPending = Math.max(0, this.#limits.maxPendingRequests - this.#pending);
    return {
      remainingRequests,
      remainingPending,
      requestsOpen: remainingRequests === 0,
      pendingOpen: remainingPending === 0,
      requestOverflows: this.#requestOverflows,
      pendingOverflows: this.#pendingOverflows,
    };
  }
}

/** Returns a permit whose first release calls `giveBack`. */
export function permit(giveBack: () => void): Permit {
  let held = true;
  return {
    release() {
      if (!held) return;
      held = false;
      giveBack();
    },
  };
}
