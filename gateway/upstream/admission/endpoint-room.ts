import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { isWithinCaps } from "../load-balancing/endpoint-caps.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import type { EndpointViews } from "../load-balancing/endpoint-views.ts";
import { PickableEndpoints } from "../load-balancing/pickable-endpoints.ts";
import type { CircuitBreaker } from "../queue/circuit-breaker.ts";

/** The longest time for which an endpoint is believed that it has no room, in milliseconds. */
const MAX_HOLD_BACK_MS = 60_000;

/** A cluster whose endpoints may have room, as far as finding that out needs to know it. */
export type RoomyCluster = {
  /** The settings of the cluster on how many requests run at once. */
  readonly settings: {
    readonly circuitBreakers: {
      /** The most requests that run at once on an endpoint; without it, as many as it has slots. */
      readonly maxRequestsPerEndpoint?: number | undefined;
    };
  };
  /** The endpoints of the cluster. */
  readonly views: EndpointViews;
};

/**
 * Knows which endpoints of a cluster have room for one more request: those that run fewer than they may, whose nodes are
 * not beyond their caps, and that have not said that they take none for a while.
 */
export class EndpointRoom {
  /** The endpoints that a pick may choose, and which of them have room. */
  readonly endpoints: PickableEndpoints;
  /** Counts the requests that run, on each endpoint and in all. */
  readonly breaker: CircuitBreaker;
  readonly #cluster: RoomyCluster;
  readonly #clock: Pick<Clock, "after">;
  /** The endpoints that have said that they have no room for a while, with what cancels the end of that. */
  readonly #heldBack = new Map<string, () => void>();

  /** Begins to follow the endpoints. `onRoom` is called whenever one of them has room that had none. */
  constructor(cluster: RoomyCluster, breaker: CircuitBreaker, clock: Pick<Clock, "after">, onRoom: () => void) {
    this.breaker = breaker;
    this.#cluster = cluster;
    this.#clock = clock;
    const { views } = cluster;
    const hasRoom = (view: EndpointView) => this.has(view);
    this.endpoints = new PickableEndpoints({ hasRoom, capOf: (view) => this.capOf(view), onRoom });
    views.follow(this.endpoints);
    views.follow({ changed() {}, left: ({ address }) => this.#endHoldBack(address) });
  }

  /** Returns the number of requests that an endpoint takes at once. */
  capOf({ slots }: EndpointView): number {
    return this.#cluster.settings.circuitBreakers.maxRequestsPerEndpoint ?? slots;
  }

  /** Returns whether an endpoint has room for one more request, whatever the cluster has. */
  has(view: EndpointView): boolean {
    const { address } = view;
    if (this.#heldBack.has(address) || this.breaker.requestsOn(address) >= this.capOf(view)) return false;
    return isWithinCaps(view);
  }

  /** Whether one more request may run, and some endpoint has room for it. */
  get any(): boolean {
    return !this.breaker.isFull && this.endpoints.roomy.size > 0;
  }

  /** Finds out again whether an endpoint has room, where it still is one of the cluster's. */
  reconsider(address: string): void {
    const view = this.#cluster.views.get(address);
    if (view) this.endpoints.reconsider(view);
  }

  /** Keeps requests away from an endpoint that has said that it takes none for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.get(address)?.();
    const cancel = this.#clock.after(Math.min(ms, MAX_HOLD_BACK_MS), () => this.#endHoldBack(address));
    this.#heldBack.set(address, cancel);
    this.reconsider(address);
  }

  /** Stops all timers. */
  close(): void {
    for (const cancel of this.#heldBack.values()) cancel();
  }

  #endHoldBack(address: string): void {
    this.#heldBack.get(address)?.();
    if (this.#heldBack.delete(address)) this.reconsider(address);
  }
}
