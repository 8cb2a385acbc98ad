import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { isWithinCaps } from "../load-balancing/endpoint-caps.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { EndpointViews } from "../load-balancing/endpoint-views.ts";
import { PickableEndpoints } from "../load-balancing/pickable-endpoints.ts";

/** The longest hold-back of an endpoint that announced to refuse requests, in milliseconds. */
const MAX_HOLD_BACK_MS = 60_000;
/** The time for which a tenant's peak demand counts, in milliseconds. */
const PEAK_MS = 60_000;

/** The share of all slots, or of the room for held requests, that one tenant gets beside others at least. */
export const LEAST_SHARE = 0.5;

export type EndpointSlotsParts = {
  readonly views: EndpointViews;
  /** The most concurrent requests per endpoint; undefined for as many as it has slots. */
  readonly maxRequestsPerEndpoint: number | undefined;
  readonly clock: Pick<Clock, "after">;
  /** Called when an endpoint without room gains some. */
  readonly onRoom: () => void;
};

/**
 * Counts the running requests on each endpoint of a cluster. An endpoint has room for one more below its request limit,
 * while its node is within its caps and has not announced to refuse requests for a while.
 */
export class EndpointSlots {
  /** The available endpoints, and those of them with room. */
  readonly endpoints: PickableEndpoints;
  readonly #parts: EndpointSlotsParts;
  readonly #runningOn = new Map<string, number>();
  #running = 0;
  /** The held-back endpoints, each with the function that cancels its timer. */
  readonly #heldBack = new Map<string, () => void>();

  constructor(parts: EndpointSlotsParts) {
    this.#parts = parts;
    const capOf = ({ slots }: EndpointView) => parts.maxRequestsPerEndpoint ?? slots;
    const hasRoom = (view: EndpointView) => this.hasRoom(view);
    this.endpoints = new PickableEndpoints({ hasRoom, capOf, onRoom: parts.onRoom });
    parts.views.follow(this.endpoints);
    parts.views.follow({ changed() {}, left: ({ address }) => this.#endHoldBack(address) });
  }

  /** The number of running requests on all endpoints. */
  get running(): number {
    return this.#running;
  }

  /** Whether some endpoint has room for one more request. */
  get any(): boolean {
    return this.endpoints.roomy.size > 0;
  }

  hasRoom(view: EndpointView): boolean {
    const { address, slots } = view;
    const cap = this.#parts.maxRequestsPerEndpoint ?? slots;
    return !this.#heldBack.has(address) && (this.#runningOn.get(address) ?? 0) < cap && isWithinCaps(view);
  }

  /** Counts one more running request on an endpoint, until the returned function is called, once. */
  take(address: string): () => void {
    const count = (change: number) => {
      const running = (this.#runningOn.get(address) ?? 0) + change;
      if (running > 0) this.#runningOn.set(address, running);
      else this.#runningOn.delete(address);
      this.#running += change;
      this.#reconsider(address);
    };
    count(1);
    return () => count(-1);
  }

  /** Keeps requests from an endpoint that announced to refuse them for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.get(address)?.();
    const cancel = this.#parts.clock.after(Math.min(ms, MAX_HOLD_BACK_MS), () => this.#endHoldBack(address));
    this.#heldBack.set(address, cancel);
    this.#reconsider(address);
  }

  close(): void {
    for (const cancel of this.#heldBack.values()) cancel();
  }

  #endHoldBack(address: string): void {
    this.#heldBack.get(address)?.();
    if (this.#heldBack.delete(address)) this.#reconsider(address);
  }

  #reconsider(address: string): void {
    const view = this.#parts.views.get(address);
    if (view) this.endpoints.reconsider(view);
  }
}

/** The requests of one tenant; their owner keeps `running` and `waiting` up to date. */
export type Tenant = {
  running: number;
  waiting: number;
  /** The most running and waiting requests at once, and when that was, in monotonic milliseconds. */
  peak: number;
  peakMs: number;
};

/**
 * Limits the running requests of each tenant, so that others need not wait for its answers to end: it leaves them as
 * many slots as they wanted at once within the last minute, but keeps half of all.
 */
export class TenantCaps {
  readonly #tenants = new Map<string, Tenant>();
  #pruneMs = 0;

  /** Counts one more waiting request of a tenant. */
  enter(name: string, nowMs: number): Tenant {
    if (nowMs >= this.#pruneMs) this.#prune(nowMs);
    const tenant = this.#tenants.get(name) ?? { running: 0, waiting: 0, peak: 0, peakMs: nowMs };
    this.#tenants.set(name, tenant);
    tenant.waiting += 1;
    const wanted = tenant.waiting + tenant.running;
    if (wanted >= demandOf(tenant, nowMs)) Object.assign(tenant, { peak: wanted, peakMs: nowMs });
    return tenant;
  }

  /** Returns whether a tenant runs as many requests as it may on `slots` slots. */
  isAtCap(tenant: Tenant, slots: number, nowMs: number): boolean {
    const reserved = Math.floor(slots * (1 - LEAST_SHARE));
    // Most requests need no look at the other tenants.
    if (tenant.running < slots - reserved) return false;
    let others = -demandOf(tenant, nowMs);
    for (const one of this.#tenants.values()) others += demandOf(one, nowMs);
    return tenant.running >= slots - Math.min(others, reserved);
  }

  #prune(nowMs: number): void {
    this.#pruneMs = nowMs + PEAK_MS;
    for (const [name, tenant] of this.#tenants) if (demandOf(tenant, nowMs) === 0) this.#tenants.delete(name);
  }
}

/** Returns the peak of a tenant's demand within the last minute. */
function demandOf({ running, waiting, peak, peakMs }: Tenant, nowMs: number): number {
  const wanted = running + waiting;
  return nowMs - peakMs < PEAK_MS ? Math.max(peak, wanted) : wanted;
}
