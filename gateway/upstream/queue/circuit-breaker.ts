/** Envoy's `circuit_breakers.thresholds`, plus a cap per endpoint. Each at least 0. */
export type CircuitBreakerLimits = {
  /** Requests of the cluster that run at once on its endpoints. */
  readonly maxRequests: number;
  /** Requests of the cluster that wait for an endpoint. */
  readonly maxPendingRequests: number;
};

/** Engines' slots are the truth about what a cluster can run; four times as many may wait, but never too many for one process. */
const PENDING_PER_SLOT = 4;
const MAX_PENDING_REQUESTS = 512;

/** The limits that the slots of a cluster's available endpoints ask for. */
export function limitsForSlots(slots: number): CircuitBreakerLimits {
  return { maxRequests: slots, maxPendingRequests: Math.min(PENDING_PER_SLOT * slots, MAX_PENDING_REQUESTS) };
}

/** A place under a limit. */
export type Permit = {
  /** May be called again; counts once. */
  release(): void;
};

/** Envoy's `remaining_*` and `*_open`, always tracked. */
export type CircuitBreakerState = {
  readonly remainingRequests: number;
  readonly remainingPending: number;
  readonly requestsOpen: boolean;
  readonly pendingOpen: boolean;
  /** Requests that were refused since the start, by limit. */
  readonly requestOverflows: number;
  readonly pendingOverflows: number;
};

/** Counts a cluster's requests against its limits, which may change at any time; what runs then goes on. */
export class CircuitBreaker {
  #limits: CircuitBreakerLimits;
  #requests = 0;
  #pending = 0;
  readonly #onEndpoint = new Map<string, number>();
  #requestOverflows = 0;
  #pendingOverflows = 0;

  constructor(limits: CircuitBreakerLimits) {
    this.#limits = limits;
  }

  setLimits(limits: CircuitBreakerLimits): void {
    this.#limits = limits;
  }

  /** Requests that run or wait. */
  get activeAndPending(): number {
    return this.#requests + this.#pending;
  }

  /** Whether the endpoint, which takes at most `maxRequests`, and the cluster have room for one more. */
  hasRoom(address: string, maxRequests: number): boolean {
    return this.#requests < this.#limits.maxRequests && this.requestsOn(address) < maxRequests;
  }

  requestsOn(address: string): number {
    return this.#onEndpoint.get(address) ?? 0;
  }

  /** A place for a request on an endpoint that takes at most `maxRequests`; undefined when there is none. */
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

  /** A place to wait; undefined when there is none. */
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

function permit(giveBack: () => void): Permit {
  let held = true;
  return {
    release() {
      if (!held) return;
      held = false;
      giveBack();
    },
  };
}
