import type { EndpointView } from "./endpoint-view.ts";

/** The endpoints that one pick may choose from. */
export type Candidates = {
  /** In no particular order. */
  readonly all: readonly EndpointView[];
  /** Returns the candidate at an address, `host:port`; undefined where there is none. */
  get(address: string): EndpointView | undefined;
};

/** A mutable set of candidates; adding and deleting take constant time. */
export class EndpointList implements Candidates {
  readonly #all: EndpointView[] = [];
  readonly #places = new Map<string, number>();

  /** `endpoints` have different addresses. */
  constructor(endpoints: readonly EndpointView[] = []) {
    for (const endpoint of endpoints) this.add(endpoint);
  }

  /** In no particular order: the last endpoint takes the position of a deleted one. */
  get all(): readonly EndpointView[] {
    return this.#all;
  }

  get size(): number {
    return this.#all.length;
  }

  get(address: string): EndpointView | undefined {
    const place = this.#places.get(address);
    return place === undefined ? undefined : this.#all[place];
  }

  /** Adds an endpoint, replacing one at the same address. */
  add(endpoint: EndpointView): void {
    const place = this.#places.get(endpoint.address) ?? this.#all.length;
    this.#places.set(endpoint.address, place);
    this.#all[place] = endpoint;
  }

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

export function without(candidates: Candidates, addresses: ReadonlySet<string>): Candidates {
  if (addresses.size === 0) return candidates;
  return {
    all: candidates.all.filter(({ address }) => !addresses.has(address)),
    get: (address) => (addresses.has(address) ? undefined : candidates.get(address)),
  };
}
