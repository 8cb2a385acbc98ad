import type { EndpointView } from "./endpoint-view.ts";

/** Whoever has to know of the endpoints of a cluster as they come, change and go. */
export type ViewFollower = {
  /**
   * Takes an endpoint that has joined, or of which something has changed that is no mere count of requests or tokens. A
   * view that takes the place of another one at its address is told in the same way.
   */
  changed(view: EndpointView): void;
  /** Lets go of an endpoint that has left. */
  left(view: EndpointView): void;
};

/**
 * The endpoints of one cluster as picks see them. Whoever owns them keeps every view up to date and tells of what has
 * changed, so that a pick neither makes views nor goes through all of them.
 */
export class EndpointViews {
  readonly #views = new Map<string, EndpointView>();
  readonly #followers = new Set<ViewFollower>();

  /** The number of endpoints. */
  get size(): number {
    return this.#views.size;
  }

  /** Returns the view of the endpoint at an address, `host:port`; undefined where there is none. */
  get(address: string): EndpointView | undefined {
    return this.#views.get(address);
  }

  /** Yields the views of all endpoints, in the order in which they joined. */
  [Symbol.iterator](): Iterator<EndpointView> {
    return this.#views.values();
  }

  /** Takes in an endpoint, or tells that its view has changed; followers are told at once. */
  set(view: EndpointView): void {
    this.#views.set(view.address, view);
    for (const follower of this.#followers) follower.changed(view);
  }

  /** Takes out the endpoint at an address, where there is one; followers are told at once. */
  delete(address: string): void {
    const view = this.#views.get(address);
    if (!view) return;
    this.#views.delete(address);
    for (const follower of this.#followers) follower.left(view);
  }

  /** Tells a follower of all endpoints, now and from now on. Returns the function that ends this. */
  follow(follower: ViewFollower): () => void {
    this.#followers.add(follower);
    for (const view of this.#views.values()) follower.changed(view);
    return () => this.#followers.delete(follower);
  }
}
