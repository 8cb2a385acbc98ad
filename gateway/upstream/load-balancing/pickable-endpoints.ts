import { type Candidates, EndpointList } from "./candidates.ts";
import { type EndpointView, isAvailable } from "./endpoint-view.ts";
import type { ViewFollower } from "./endpoint-views.ts";

/** The rules of the owner of the endpoints on what an endpoint takes, beside its view. */
export type RoomRules = {
  /**
   * Returns whether all caps of the endpoint's own (circuit breaker, the node's queue, KV cache) leave it room for one
   * more request. By default every endpoint has room.
   */
  readonly hasRoom?: (endpoint: EndpointView) => boolean;
  /** Returns the number of requests that the endpoint takes at once. By default that is the number of its slots. */
  readonly capOf?: (endpoint: EndpointView) => number;
  /** Called whenever an endpoint that had no room has some. */
  readonly onRoom?: () => void;
};

/**
 * The endpoints of a cluster that a pick may choose, and those of them that have room. It follows an `EndpointViews` and
 * is kept up to date one endpoint at a time, at a cost that does not grow with their number.
 */
export class PickableEndpoints implements ViewFollower {
  readonly #hasRoom: (endpoint: EndpointView) => boolean;
  readonly #capOf: (endpoint: EndpointView) => number;
  readonly #onRoom: () => void;
  readonly #available = new EndpointList();
  readonly #roomy = new EndpointList();
  /** All endpoints of the cluster, each with the requests that it takes at once as last counted in `#capacity`. */
  readonly #caps = new Map<string, number>();
  #capacity = 0;
  #changes = 0;

  /** Starts without endpoints: `EndpointViews.follow` brings them. */
  constructor(rules: RoomRules = {}) {
    this.#hasRoom = rules.hasRoom ?? (() => true);
    this.#capOf = rules.capOf ?? (({ slots }) => slots);
    this.#onRoom = rules.onRoom ?? (() => {});
  }

  /** The number of endpoints of the cluster, whatever their health. */
  get total(): number {
    return this.#caps.size;
  }

  /** The endpoints that a pick may choose, be they full or not. */
  get available(): Candidates & { readonly size: number } {
    return this.#available;
  }

  /** Those of the available endpoints that have room for one more request. */
  get roomy(): Candidates & { readonly size: number } {
    return this.#roomy;
  }

  /** The number of requests that the available endpoints take at once. */
  get capacity(): number {
    return this.#capacity;
  }

  /** A number that grows whenever other endpoints are available than before, or an endpoint joined or left. */
  get changes(): number {
    return this.#changes;
  }

  /** Takes in an endpoint, or what has changed of it. */
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

  /** Lets go of an endpoint that has left. */
  left({ address }: EndpointView): void {
    const cap = this.#caps.get(address);
    if (cap === undefined) return;
    if (this.#available.get(address) !== undefined) this.#capacity -= cap;
    this.#caps.delete(address);
    this.#available.delete(address);
    this.#roomy.delete(address);
    this.#changes += 1;
  }

  /** Finds out again whether an endpoint has room, after something else than its view has changed. */
  reconsider(view: EndpointView): void {
    const { address } = view;
    const had = this.#roomy.get(address) !== undefined;
    const has = this.#available.get(address) !== undefined && this.#hasRoom(view);
    if (has) this.#roomy.add(view);
    else if (had) this.#roomy.delete(address);
    if (has && !had) this.#onRoom();
  }
}
