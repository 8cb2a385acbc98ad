import { type Candidates, EndpointList } from "./candidates.ts";
import { type EndpointView, isAvailable } from "./endpoint-view.ts";
import type { ViewFollower } from "./endpoint-views.ts";

/** The owner's rules on the capacity of an endpoint, beside its view. */
export type RoomRules = {
  /**
   * Returns whether the endpoint's circuit breaker, queue and KV cache have room for one more request. The default is
   * true.
   */
  readonly hasRoom?: (endpoint: EndpointView) => boolean;
  /** Returns the number of requests that the endpoint takes concurrently. The default is its number of slots. */
  readonly capOf?: (endpoint: EndpointView) => number;
  /** Called when an endpoint without room gains some. */
  readonly onRoom?: () => void;
};

/**
 * The available endpoints of a cluster, and those of them with room. Follows an `EndpointViews` one endpoint at a time,
 * at a cost independent of their number.
 */
export class PickableEndpoints implements ViewFollower {
  readonly #hasRoom: (endpoint: EndpointView) => boolean;
  readonly #capOf: (endpoint: EndpointView) => number;
  readonly #onRoom: () => void;
  readonly #available = new EndpointList();
  readonly #roomy = new EndpointList();
  /** The last counted capacity of each endpoint of the cluster. */
  readonly #caps = new Map<string, number>();
  #capacity = 0;
  #changes = 0;

  /** Starts empty: `EndpointViews.follow` adds the endpoints. */
  constructor(rules: RoomRules = {}) {
    this.#hasRoom = rules.hasRoom ?? (() => true);
    this.#capOf = rules.capOf ?? (({ slots }) => slots);
    this.#onRoom = rules.onRoom ?? (() => {});
  }

  /** The number of endpoints of the cluster, regardless of health. */
  get total(): number {
    return this.#caps.size;
  }

  /** The endpoints that a pick may choose, with or without room. */
  get available(): Candidates & { readonly size: number } {
    return this.#available;
  }

  /** The available endpoints with room for one more request. */
  get roomy(): Candidates & { readonly size: number } {
    return this.#roomy;
  }

  /** The number of requests that the available endpoints take concurrently. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Increases when an endpoint joins, leaves, or becomes available or unavailable. */
  get changes(): number {
    return this.#changes;
  }

  /** Adds or updates an endpoint. */
  changed(view: EndpointView): void {
    const { address } = view;
    const was = this.#available.get(address) !== undefined;
    const is = isAvailable(view);
    if (was !== is || !this.#caps.has(address)) this.#changes += 1;
    if (was) this.#capacity -= this.#caps.get(address) ?? 0;
    const cap = this.#capOf(view);
    this.#caps.set(address, cap);
    if (is) {
      this.#capacity += cap;
      this.#available.add(view);
    } else if (was) this.#available.delete(address);
    this.reconsider(view);
  }

  left({ address }: EndpointView): void {
    const cap = this.#caps.get(address);
    if (cap === undefined) return;
    if (this.#available.get(address) !== undefined) this.#capacity -= cap;
    this.#caps.delete(address);
    this.#available.delete(address);
    this.#roomy.delete(address);
    this.#changes += 1;
  }

  /** Re-evaluates an endpoint's room after a change outside its view. */
  reconsider(view: EndpointView): void {
    const { address } = view;
    const had = this.#roomy.get(address) !== undefined;
    const has = this.#available.get(address) !== undefined && this.#hasRoom(view);
    if (has) this.#roomy.add(view);
    else if (had) this.#roomy.delete(address);
    if (has && !had) this.#onRoom();
  }
}
