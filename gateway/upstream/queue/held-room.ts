import { type Permit, permit } from "./circuit-breaker.ts";
import { RESERVED_SHARE } from "./tenant-places.ts";

/** The most bytes of all held requests' bodies in a cluster. */
export const MAX_HELD_BYTES = 64 * 1024 * 1024;

type Held = { readonly requests: number; readonly bytes: number };

const NONE: Held = { requests: 0, bytes: 0 };

/**
 * Counts the requests held during an outage, and their bytes. A held request may wait for minutes, so some room is
 * reserved from every tenant for later requests. One request of a tenant is held regardless of its size, where the
 * total leaves room.
 */
export class HeldRoom {
  readonly #maxRequests: number;
  readonly #tenants = new Map<string, Held>();
  #all = NONE;

  /** `maxRequests` requests are held at most. */
  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /** The number of held requests. */
  get requests(): number {
    return this.#all.requests;
  }

  /** The bytes of all held requests' bodies. */
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
