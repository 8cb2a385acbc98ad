import type { EndpointView } from "./endpoint-view.ts";

/** Receives the changes of a cluster's endpoints. */
export type ViewFollower = {
  /**
   * Called for an endpoint that joined or changed in anything but its counts of requests and tokens. Also called when
   * another view replaces the one at its address.
   */
  changed(view: EndpointView): void;
  left(view: EndpointView): void;
};

/**
 * The endpoints of one cluster as picks see them. The owner keeps every view up to date and announces changes, so that
 * a pick neither creates views nor iterates over all of them.
 */
export class EndpointViews {
  readonly #views = new Map<string, EndpointView>();
  readonly #followers = new Set<ViewFollower>();

  get size(): number {
    return this.#views.size;
  }

  get(address: string): EndpointView | undefined {
    return this.#views.get(address);
  }

  /** In the order in which the endpoints joined. */
  [Symbol.iterator](): Iterator<EndpointView> {
    return this.#views.values();
  }

  /** Adds an endpoint, or announces a change of its view; followers are called synchronously. */
  set(view: EndpointView): void {
    this.#views.set(view.address, view);
    for (const follower of this.#followers) follower.changed(view);
  }

  /** Removes the endpoint at an address, if present; followers are called synchronously. */
  delete(address: string): void {
    const view = this.#views.get(address);
    if (!view) return;
    this.#views.delete(address);
    for (const follower of this.#followers) follower.left(view);
  }

  /** Calls the follower for each present endpoint, and for every later change. Returns the function that ends this. */
  follow(follower: ViewFollower): () => void {
    this.#followers.add(follower);
    for (const view of this.#views.values()) follower.changed(view);
    return () => this.#followers.delete(follower);
  }
}
