/** The period of a tenant's peak demand, in milliseconds: a peak counts for one to two periods. */
const PERIOD_MS = 30_000;

/** The largest share of all places reserved for other tenants. */
export const RESERVED_SHARE = 0.5;

/** The requests of one tenant. */
type Tenant = {
  held: number;
  /** The number of requests that hold a place or wait for one. */
  wanted: number;
  /** The peak of `wanted` in this period, and in the previous one. */
  most: number;
  mostBefore: number;
};

/** One request's demand for a place. */
export type PlaceDemand = {
  /** Returns whether the request may take one of `places` places, at the monotonic time `nowMs`. */
  mayTake(places: number, nowMs: number): boolean;
  /** Records that the request has taken a place. Called at most once. */
  take(): void;
  /** Records that the request has released its place, or no longer wants one. Idempotent. */
  end(): void;
};

/**
 * Counts the places that each tenant holds and wants, and reserves some for tenants that recently wanted them: a queue
 * is fair to waiting requests, but a tenant that holds all places makes all others wait for its answers to end.
 */
export class TenantPlaces {
  readonly #tenants = new Map<string, Tenant>();
  #periodMs = Number.NEGATIVE_INFINITY;
  /** The sum of all tenants' recent peaks. */
  #wanted = 0;

  /** Records that a request of the tenant wants a place, at the monotonic time `nowMs`. */
  want(name: string, nowMs: number): PlaceDemand {
    this.#turnOver(nowMs);
    const tenant = this.#tenants.get(name) ?? { held: 0, wanted: 0, most: 0, mostBefore: 0 };
    this.#tenants.set(name, tenant);
    this.#wanted -= ofLate(tenant);
    tenant.wanted += 1;
    tenant.most = Math.max(tenant.most, tenant.wanted);
    this.#wanted += ofLate(tenant);
    let state: "wanting" | "holding" | "over" = "wanting";
    return {
      mayTake: (places, atMs) => tenant.held < places - this.#forOthers(tenant, places, atMs),
      take() {
        state = "holding";
        tenant.held += 1;
      },
      end() {
        if (state === "holding") tenant.held -= 1;
        if (state !== "over") tenant.wanted -= 1;
        state = "over";
      },
    };
  }

  /** Returns how many of `places` places are reserved for other tenants. */
  #forOthers(tenant: Tenant, places: number, nowMs: number): number {
    this.#turnOver(nowMs);
    return Math.min(this.#wanted - ofLate(tenant), Math.floor(places * RESERVED_SHARE));
  }

  /** Begins a new period when the last one is over, and removes tenants without demand for two periods. */
  #turnOver(nowMs: number): void {
    const sinceMs = nowMs - this.#periodMs;
    if (sinceMs < PERIOD_MS) return;
    this.#periodMs = nowMs;
    this.#wanted = 0;
    for (const [name, tenant] of this.#tenants) {
      tenant.mostBefore = sinceMs < 2 * PERIOD_MS ? tenant.most : 0;
      tenant.most = tenant.wanted;
      if (ofLate(tenant) === 0) this.#tenants.delete(name);
      else this.#wanted += ofLate(tenant);
    }
  }
}

/** Returns the peak of a tenant's demand in this and the previous period. */
function ofLate({ most, mostBefore }: Tenant): number {
  return Math.max(most, mostBefore);
}
