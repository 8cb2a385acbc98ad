import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type EndpointView, isAvailable, isWithinCaps } from "./endpoint-view.ts";

/** The longest hold-back of an endpoint that announced to refuse requests. */
const MAX_HOLD_BACK_MS = 60_000;

export type Candidates = {
  readonly all: readonly EndpointView[];
  /** Returns the candidate at an address, `host:port`; undefined where there is none. */
  get(address: string): EndpointView | undefined;
};

/** A mutable set of candidates; adding and deleting take constant time. */
export class EndpointList implements Candidates {
  /** Changed by this class only. */
  readonly all: EndpointView[] = [];
  readonly #indices = new Map<string, number>();

  constructor(endpoints: readonly EndpointView[] = []) {
    for (const endpoint of endpoints) this.add(endpoint);
  }

  get(address: string): EndpointView | undefined {
    const index = this.#indices.get(address);
    return index === undefined ? undefined : this.all[index];
  }

  add(endpoint: EndpointView): void {
    const index = this.#indices.get(endpoint.address) ?? this.all.length;
    this.#indices.set(endpoint.address, index);
    this.all[index] = endpoint;
  }

  /** Removes an endpoint, whose position the last one takes. */
  delete(address: string): void {
    const index = this.#indices.get(address);
    if (index === undefined) return;
    this.#indices.delete(address);
    const last = this.all.pop();
    if (last === undefined || last.address === address) return;
    this.all[index] = last;
    this.#indices.set(last.address, index);
  }
}

/** The reason why there is no pick. Only `all_full` can end by waiting. */
export type NoPick = "no_endpoints" | "none_available" | "all_tried" | "all_full";

export type EndpointSetOptions = {
  /** The most concurrent requests per endpoint; undefined for as many as it has slots. */
  readonly maxRequestsPerEndpoint?: number | undefined;
  readonly clock: Pick<Clock, "after">;
};

/**
 * The endpoints of one cluster as picks see them, and the requests that run on each. An available endpoint has capacity for
 * one more request below its limit, while its node is within its caps and has not announced to refuse requests for a
 * while. Every change costs the same however many endpoints there are, so that no pick reads all of them.
 */
export class EndpointSet {
  readonly #options: EndpointSetOptions;
  readonly #all = new Map<string, { readonly view: EndpointView; readonly cap: number }>();
  readonly #available = new EndpointList();
  readonly #withCapacity = new EndpointList();
  /** The endpoints that may receive requests, with or without capacity. */
  readonly available: Candidates = this.#available;
  /** The available endpoints with capacity for one more request. */
  readonly withCapacity: Candidates = this.#withCapacity;
  /** The number of requests that the available endpoints take concurrently. Changed by this class only. */
  capacity = 0;
  /** The number of running requests. Changed by this class only. */
  running = 0;
  /** By address: an endpoint that left may return while its calls still run. */
  readonly #runningOn = new Map<string, number>();
  /** The held-back endpoints, each with the function that cancels its timer. */
  readonly #heldBack = new Map<string, () => void>();
  readonly #capacityListeners = new Set<() => void>();
  readonly #leaveListeners = new Set<(address: string) => void>();

  constructor(options: EndpointSetOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#all.size;
  }

  get(address: string): EndpointView | undefined {
    return this.#all.get(address)?.view;
  }

  *[Symbol.iterator](): Iterator<EndpointView> {
    for (const { view } of this.#all.values()) yield view;
  }

  /** Calls the listener when an endpoint without capacity gains some. */
  onCapacity(listener: () => void): void {
    this.#capacityListeners.add(listener);
  }

  onLeave(listener: (address: string) => void): void {
    this.#leaveListeners.add(listener);
  }

  /** Adds an endpoint, or takes a change of it in anything but its counts of requests and tokens. */
  set(view: EndpointView): void {
    const { address, slots } = view;
    const before = this.#all.get(address);
    const was = this.#available.get(address) !== undefined;
    const is = isAvailable(view);
    const cap = this.#options.maxRequestsPerEndpoint ?? slots;
    if (was) this.capacity -= before?.cap ?? 0;
    if (is) this.capacity += cap;
    this.#all.set(address, { view, cap });
    if (is) this.#available.add(view);
    else if (was) this.#available.delete(address);
    this.#reconsider(address);
  }

  delete(address: string): void {
    const before = this.#all.get(address);
    if (!before) return;
    if (this.#available.get(address)) this.capacity -= before.cap;
    this.#all.delete(address);
    this.#available.delete(address);
    this.#withCapacity.delete(address);
    this.#endHoldBack(address);
    for (const listener of this.#leaveListeners) listener(address);
  }

  hasCapacity(view: EndpointView): boolean {
    const { address } = view;
    const cap = this.#options.maxRequestsPerEndpoint ?? view.slots;
    return !this.#heldBack.has(address) && (this.#runningOn.get(address) ?? 0) < cap && isWithinCaps(view);
  }

  /** Counts a request that begins (1) or ends (-1) on an endpoint. */
  count(address: string, change: 1 | -1): void {
    const running = (this.#runningOn.get(address) ?? 0) + change;
    if (running > 0) this.#runningOn.set(address, running);
    else this.#runningOn.delete(address);
    this.running += change;
    this.#reconsider(address);
  }

  /** Keeps requests from an endpoint that announced to refuse them for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.get(address)?.();
    const cancel = this.#options.clock.after(Math.min(ms, MAX_HOLD_BACK_MS), () => this.#endHoldBack(address));
    this.#heldBack.set(address, cancel);
    this.#reconsider(address);
  }

  /** Returns why there is no pick, given that no endpoint with capacity outside `tried` suits the policy. */
  noPick(tried: ReadonlySet<string>): NoPick {
    if (this.#all.size === 0) return "no_endpoints";
    if (this.available.all.length === 0) return "none_available";
    // The first untried endpoint ends the search.
    return this.available.all.some(({ address }) => !tried.has(address)) ? "all_full" : "all_tried";
  }

  close(): void {
    for (const cancel of this.#heldBack.values()) cancel();
  }

  #endHoldBack(address: string): void {
    this.#heldBack.get(address)?.();
    if (this.#heldBack.delete(address)) this.#reconsider(address);
  }

  #reconsider(address: string): void {
    const view = this.#available.get(address);
    const had = this.#withCapacity.get(address) !== undefined;
    if (view && this.hasCapacity(view)) {
      this.#withCapacity.add(view);
      if (!had) for (const listener of this.#capacityListeners) listener();
    } else if (had) this.#withCapacity.delete(address);
  }
}
