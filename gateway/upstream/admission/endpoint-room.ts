import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { type EndpointView, isWithinCaps } from "../load-balancing/endpoint-view.ts";
import type { EndpointViews } from "../load-balancing/endpoint-views.ts";
import { PickableEndpoints } from "../load-balancing/pickable-endpoints.ts";
import type { CircuitBreaker } from "../queue/circuit-breaker.ts";

/** The longest hold-back of an endpoint without room, in milliseconds. */
const MAX_HOLD_BACK_MS = 60_000;

/** The part of a cluster that decides on its endpoints' room. */
export type RoomyCluster = {
  readonly settings: {
    readonly circuitBreakers: {
      /** The most concurrent requests per endpoint; undefined for as many as it has slots. */
      readonly maxRequestsPerEndpoint?: number | undefined;
    };
  };
  readonly views: EndpointViews;
};

/**
 * Decides which endpoints of a cluster have room for one more request: those below their request limit, whose nodes are
 * within their caps, and that have not announced to refuse requests for a while.
 */
export class EndpointRoom {
  /** The available endpoints, and those of them with room. */
  readonly endpoints: PickableEndpoints;
  /** Counts the running requests, on each endpoint and in total. */
  readonly breaker: CircuitBreaker;
  readonly #cluster: RoomyCluster;
  readonly #clock: Pick<Clock, "after">;
  /** The held-back endpoints, each with the cancel function of its timer. */
  readonly #heldBack = new Map<string, () => void>();

  /** Follows the endpoints. `onRoom` is called whenever an endpoint without room gains some. */
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

  /** Returns the number of requests that an endpoint takes concurrently. */
  capOf({ slots }: EndpointView): number {
    return this.#cluster.settings.circuitBreakers.maxRequestsPerEndpoint ?? slots;
  }

  /** Returns whether an endpoint has room for one more request, regardless of the cluster's limit. */
  has(view: EndpointView): boolean {
    const { address } = view;
    if (this.#heldBack.has(address) || this.breaker.requestsOn(address) >= this.capOf(view)) return false;
    return isWithinCaps(view);
  }

  /** Whether the cluster may run one more request and some endpoint has room for it. */
  get any(): boolean {
    return !this.breaker.isFull && this.endpoints.roomy.size > 0;
  }

  /** Re-evaluates an endpoint's room, if it is still in the cluster. */
  reconsider(address: string): void {
    const view = this.#cluster.views.get(address);
    if (view) this.endpoints.reconsider(view);
  }

  /** Keeps requests from an endpoint that announced to refuse them for `ms` milliseconds; at most 60 s. */
  holdBack(address: string, ms: number): void {
    this.#heldBack.get(address)?.();
    const cancel = this.#clock.after(Math.min(ms, MAX_HOLD_BACK_MS), () => this.#endHoldBack(address));
    this.#heldBack.set(address, cancel);
    this.reconsider(address);
  }

  close(): void {
    for (const cancel of this.#heldBack.values()) cancel();
  }

  #endHoldBack(address: string): void {
    this.#heldBack.get(address)?.();
    if (this.#heldBack.delete(address)) this.reconsider(address);
  }
}
