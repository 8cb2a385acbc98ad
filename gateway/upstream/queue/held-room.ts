import { type Permit, permit } from "./circuit-breaker.ts";
import { RESERVED_SHARE } from "./tenant-places.ts";

/** The most bytes that the bodies of all held requests of a cluster come to. */
export const MAX_HELD_BYTES = 64 * 1024 * 1024;

type Held = { readonly requests: number; readonly bytes: number };

const NONE: Held = { requests: 0, bytes: 0 };

/**
 * Counts the requests that are held while a cluster has no endpoint, and their bytes. Whoever comes first may wait for
 * minutes; so some room is kept from every tenant, for those that come later. One request of a tenant is held whatever
 * its size, where all together leave it room.
 */
export class HeldRoom {
  readonly #maxRequests: number;
  readonly #tenants = new Map<string, Held>();
  #all = NONE;

  /** Holds nothing at first, and at most `maxRequests` requests at once. */
  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /** The number of requests that are held. */
  get requests(): number {
    return this.#all.requests;
  }

  /** The bytes that the bodies of all held requests come to. */
  get bytes(): number {
    return this.#all.bytes;
  }

  /** Takes room for one more request of a tenant, with a body of `bytes`. Returns undefined where there is none. */
  tryHold(tenant: string, bytes: number): Permit | undefined {
    const maxRequests = this.#maxRequests;
    const share = 1 - RESERVED_SHARE;
    const ofTenant = this.#tenants.get(tenant) ?? NONE;
    const one = { requests: 1, bytes };
    if (!fits(sum(this.#all, one), maxRequests, MAX_HELD_BYTES)) return undefined;
    if (ofTenant.requests > 0 && !fits(sum(ofTenant, one), share * maxRequests, share * MAX_HELD_BYTES))
      return undefined;
    this.#add(tenant, one);
    return permit(() => this.#add(tenant, { requests: -1, bytes: -bytes }));
  }

  #add(tenant: string, change: Held): void {
    this.#all = sum(this.#all, change);
    const ofTenant = sum(this.#tenants.get(tenant) ?? NONE, change);
    if (ofTenant.requests > 0) this.#tenants.set(tenant, ofTenant);
    else this.#tenants.delete(tenant);
  }
}

function sum(a: Held, b: Held): Held {
  return { requests: a.requests + b.requests, bytes: a.bytes + b.bytes };
}

function fits({ requests, bytes }: Held, maxRequests: number, maxBytes: number): boolean {
  return requests <= maxRequests && bytes <= maxBytes;
}
