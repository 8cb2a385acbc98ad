/** The time for which what a tenant wanted is reckoned with: at least once, and less than twice as long, in milliseconds. */
const PERIOD_MS = 30_000;

/** The share of all places that no tenant fills alone. */
export const RESERVED_SHARE = 0.5;

/** The requests of one tenant. */
type Tenant = {
  /** The number of places that the tenant holds. */
  held: number;
  /** The number of requests that hold a place or wait for one. */
  wanted: number;
  /** The most of these at one time in this period, and in the one before. */
  most: number;
  mostBefore: number;
};

/** The wish of one request for a place. */
export type PlaceDemand = {
  /** Returns whether the request may take one of `places` places, at `nowMs` in milliseconds of the monotonic clock. */
  mayTake(places: number, nowMs: number): boolean;
  /** Notes that the request has taken a place. It is called once at most. */
  take(): void;
  /** Notes that the request has given back its place, or wants none any more. A second call does nothing. */
  end(): void;
};

/**
 * Counts the places that each tenant holds and wants, and keeps some of all places from whoever has most of them, as many as
 * the others have wanted of late: a queue is fair to those who wait, but a tenant that has all places makes everybody else
 * wait for its answers to end.
 */
export class TenantPlaces {
  readonly #tenants = new Map<string, Tenant>();
  #periodMs = Number.NEGATIVE_INFINITY;
  /** The sum of what each tenant has wanted of late. */
  #wanted = 0;

  /** Notes that a request of the tenant wants a place, at `nowMs` in milliseconds of the monotonic clock. */
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

  /** Returns how many of `places` places are kept for others than the tenant. */
  #forOthers(tenant: Tenant, places: number, nowMs: number): number {
    this.#turnOver(nowMs);
    return Math.min(this.#wanted - ofLate(tenant), Math.floor(places * RESERVED_SHARE));
  }

  /** Begins a new period where the last one is over, and forgets who has wanted nothing for two. */
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

/** Returns the most places that a tenant has wanted at one time of late. */
function ofLate({ most, mostBefore }: Tenant): number {
  return Math.max(most, mostBefore);
}
