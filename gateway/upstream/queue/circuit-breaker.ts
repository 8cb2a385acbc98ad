/**
 * The numbers of requests of a cluster that may run and wait, as in Envoy's `circuit_breakers.thresholds`; each is at
 * least 0.
 */
export type CircuitBreakerLimits = {
  /** The number of requests of the cluster that may run at once on its endpoints. */
  readonly maxRequests: number;
  /** The number of requests of the cluster that may wait for an endpoint. */
  readonly maxPendingRequests: number;
};

/** The number of requests that may wait for each slot of the endpoints, which say what a cluster can run. */
export const PENDING_PER_SLOT = 4;
/** The number of requests that may wait however many slots there are: more are too many for one process. */
export const MAX_PENDING_REQUESTS = 512;

/**
 * Returns the limits that the slots of a cluster's available endpoints ask for: one running request and four waiting
 * ones for each slot, and no more than 512 waiting ones.
 */
export function limitsForSlots(slots: number): CircuitBreakerLimits {
  return { maxRequests: slots, maxPendingRequests: Math.min(PENDING_PER_SLOT * slots, MAX_PENDING_REQUESTS) };
}

/** A place under a limit, which its holder gives back. */
export type Permit = {
  /** Gives the place back. A second call does nothing. */
  release(): void;
};

/** What a circuit breaker leaves free, as Envoy's `remaining_*` and `*_open` say it. */
export type CircuitBreakerState = {
  /** The number of requests that may yet run. */
  readonly remainingRequests: number;
  /** The number of requests that may yet wait. */
  readonly remainingPending: number;
  /** Whether no further request may run. */
  readonly requestsOpen: boolean;
  /** Whether no further request may wait. */
  readonly pendingOpen: boolean;
  /** The number of requests since the start that were not let run. */
  readonly requestOverflows: number;
  /** The number of requests since the start that were not let wait. */
  readonly pendingOverflows: number;
};

/** Counts a cluster's requests against its limits, which may change at any time; requests that run then go on. */
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

  /** Takes other limits. Requests that run or wait already go on. */
  setLimits(limits: CircuitBreakerLimits): void {
    this.#limits = limits;
  }

  /** The number of requests that may run at once, by the limits of this moment. */
  get maxRequests(): number {
    return this.#limits.maxRequests;
  }

  /** Whether as many requests run as may, so that none of the endpoints has a place. */
  get isFull(): boolean {
    return this.#requests >= this.#limits.maxRequests;
  }

  /** The number of requests that run or wait. */
  get activeAndPending(): number {
    return this.#requests + this.#pending;
  }

  /**
   * Returns whether the cluster has room for one more request, and so has the endpoint, which takes at most
   * `maxRequests` at once.
   */
  hasRoom(address: string, maxRequests: number): boolean {
    return !this.isFull && this.requestsOn(address) < maxRequests;
  }

  /** Returns the number of requests that run on an endpoint. */
  requestsOn(address: string): number {
    return this.#onEndpoint.get(address) ?? 0;
  }

  /**
   * Takes a place for a request on an endpoint that takes at most `maxRequests` at once. Returns undefined, and counts
   * an overflow, when there is none.
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

  /** The number of token counts that are under way. */
  get activeCounts(): number {
    return this.#counts;
  }

  /**
   * Takes a place for a token count, of which at most `maxCounts` are under way. Returns undefined when there is none.
   */
  tryCount(maxCounts: number): Permit | undefined {
    if (this.#counts >= maxCounts) return undefined;
    this.#counts += 1;
    return permit(() => {
      this.#counts -= 1;
    });
  }

  /** Takes a place for a request that waits. Returns undefined, and counts an overflow, when there is none. */
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

  /** The room that is left under the limits of this moment. */
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

/** Makes a permit of which the first release calls `giveBack`. */
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
