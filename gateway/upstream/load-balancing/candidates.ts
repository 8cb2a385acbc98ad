import type { EndpointView } from "./endpoint-view.ts";

/** The endpoints that one pick may choose from. */
export type Candidates = {
  /** The endpoints, in an order that means nothing. */
  readonly all: readonly EndpointView[];
  /** Returns the candidate at an address, `host:port`; undefined where it is none. */
  get(address: string): EndpointView | undefined;
};

/** Candidates that come and go one at a time, each at the same cost however many there are. */
export class EndpointList implements Candidates {
  readonly #all: EndpointView[] = [];
  readonly #places = new Map<string, number>();

  /** Makes a list of endpoints with different addresses; by default it is empty. */
  constructor(endpoints: readonly EndpointView[] = []) {
    for (const endpoint of endpoints) this.add(endpoint);
  }

  /** The endpoints of the list, in an order that means nothing: one that leaves gives its place to the last one. */
  get all(): readonly EndpointView[] {
    return this.#all;
  }

  /** The number of endpoints in the list. */
  get size(): number {
    return this.#all.length;
  }

  /** Returns the endpoint at an address, `host:port`; undefined where the list has none there. */
  get(address: string): EndpointView | undefined {
    const place = this.#places.get(address);
    return place === undefined ? undefined : this.#all[place];
  }

  /** Adds an endpoint, in place of one that has the same address. */
  add(endpoint: EndpointView): void {
    const place = this.#places.get(endpoint.address) ?? this.#all.length;
    this.#places.set(endpoint.address, place);
    this.#all[place] = endpoint;
  }

  /** Takes out the endpoint at an address, where there is one. */
  delete(address: string): void {
    const place = this.#places.get(address);
    if (place === undefined) return;
    this.#places.delete(address);
    const last = this.#all.pop();
    if (last === undefined || last.address === address) return;
    this.#all[place] = last;
    this.#places.set(last.address, place);
  }
}

/** Returns the candidates that are at none of these addresses. */
export function without(candidates: Candidates, addresses: ReadonlySet<string>): Candidates {
  if (addresses.size === 0) return candidates;
  return {
    all: candidates.all.filter(({ address }) => !addresses.has(address)),
    get: (address) => (addresses.has(address) ? undefined : candidates.get(address)),
  };
}
