import { LRUCache } from "lru-cache";
import type { Boundary } from "../../boundary-hashes.ts";

/** The belief that an endpoint has a prefix in its cache. */
export type Holder = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The size of the prefix in tokens. */
  readonly tokens: number;
  /** Monotonic milliseconds at which a request last used the prefix there. */
  readonly usedAtMs: number;
  /** Monotonic milliseconds from which on the belief is void. */
  readonly expiresAtMs: number;
  /** Whether the engine has said that it prefilled the prefix; otherwise a request with it is only on its way there. */
  readonly confirmed: boolean;
};

/** The number of prefixes whose endpoints are remembered, some 400 bytes each; those used longest ago go first. */
const MAX_PREFIXES = 50_000;
/** The number of endpoints that are remembered for one prefix; a head that all sessions share is soon everywhere. */
const MAX_HOLDERS = 8;

/** How a request uses its prefixes on an endpoint, as `PlacementMap.record` takes it. */
type PrefixUse = {
  readonly tokensPerByte: number;
  readonly ttlMs: number;
  readonly nowMs: number;
  readonly confirmed: boolean;
};

/** The number of boundaries at the end of a prompt that are remembered: the next turn branches off at one of them. */
const INDEXED_TAIL = 8;
/** The number of boundaries at the beginning of a prompt that are remembered, as other conversations share them. */
const INDEXED_HEAD = 2;
const NOBODY: readonly Holder[] = [];

/**
 * Remembers which prefixes this gateway believes to be in which endpoint's cache. The map is bounded, and a prefix that
 * is not used expires.
 */
export class PlacementMap {
  /** The holders of each prefix, by its hash. */
  readonly #entries: LRUCache<string, readonly Holder[]>;
  /**
   * For each address, when a prefix that has since been evicted was last used: prefixes that were last used before are
   * gone, too.
   */
  readonly #evictedUntilMs = new Map<string, number>();

  /** Makes an empty map of at most `maxPrefixes` prefixes. */
  constructor(maxPrefixes = MAX_PREFIXES) {
    this.#entries = new LRUCache({ max: maxPrefixes });
  }

  /** The number of prefixes that are remembered. */
  get size(): number {
    return this.#entries.size;
  }

  /** Returns the endpoints that are believed, at the monotonic time `nowMs`, to hold the prefix that ends at `hash`. */
  holders(hash: string, nowMs: number): readonly Holder[] {
    const entry = this.#entries.get(hash);
    if (!entry) return NOBODY;
    // On the path of every request, where nearly all of them are.
    for (const holder of entry)
      if (!this.#isBelieved(holder, nowMs)) return entry.filter((one) => this.#isBelieved(one, nowMs));
    return entry;
  }

  /**
   * Notes that a request with these boundaries goes to the endpoint at `address`, or has been prefilled there
   * (`confirmed`). This begins or renews the sliding lifetime of its prefixes there, `ttlMs` milliseconds from the
   * monotonic time `nowMs`. `tokensPerByte` is what was measured for the prompt, else what is usual.
   */
  record(boundaries: readonly Boundary[], address: string, use: PrefixUse): void {
    eachIndexed(boundaries, ({ hash, bytes }) => this.#use(hash, bytes, address, use));
  }

  /**
   * Notes that a request with these boundaries ended before the endpoint prefilled it: what was believed because of the
   * request alone is void.
   */
  withdraw(boundaries: readonly Boundary[], address: string): void {
    eachIndexed(boundaries, ({ hash }) => {
      const entry = this.#entries.get(hash) ?? [];
      this.#keep(
        hash,
        entry.filter((holder) => holder.address !== address || holder.confirmed),
      );
    });
  }

  /**
   * Notes that the endpoint turned out not to hold a prefix any more that was last used at `usedAtMs`. Caches evict
   * what was not used for longest, so that prefixes which were last used before it are gone, too.
   */
  evicted(address: string, usedAtMs: number): void {
    this.#evictedUntilMs.set(address, Math.max(usedAtMs, this.#evictedUntilMs.get(address) ?? usedAtMs));
  }

  /** Drops all beliefs about an endpoint that left, or came back with an empty cache. */
  forgetEndpoint(address: string): void {
    this.#evictedUntilMs.delete(address);
    for (const [hash, entry] of [...this.#entries]) {
      if (entry.some((holder) => holder.address === address)) {
        this.#keep(
          hash,
          entry.filter((holder) => holder.address !== address),
        );
      }
    }
  }

  #use(hash: string, bytes: number, address: string, { tokensPerByte, ttlMs, nowMs, confirmed }: PrefixUse): void {
    const before = this.holders(hash, nowMs);
    const same = before.find((holder) => holder.address === address);
    const holder: Holder = {
      address,
      tokens: confirmed || !same?.confirmed ? bytes * tokensPerByte : same.tokens,
      usedAtMs: nowMs,
      expiresAtMs: Math.max(nowMs + ttlMs, same?.expiresAtMs ?? 0),
      confirmed: confirmed || (same?.confirmed ?? false),
    };
    const others = before.length > (same ? 1 : 0) ? before.filter((other) => other !== same) : NOBODY;
    this.#entries.set(hash, others.length > 0 ? [holder, ...others].slice(0, MAX_HOLDERS) : [holder]);
  }

  #isBelieved({ address, usedAtMs, expiresAtMs }: Holder, nowMs: number): boolean {
    const evictedUntilMs = this.#evictedUntilMs.get(address);
    return nowMs < expiresAtMs && (evictedUntilMs === undefined || usedAtMs > evictedUntilMs);
  }

  #keep(hash: string, holders: readonly Holder[]): void {
    if (holders.length > 0) this.#entries.set(hash, holders);
    else this.#entries.delete(hash);
  }
}

/**
 * Calls `take` with the boundaries that are worth remembering. Those in between were at the end of an earlier turn's
 * prompt.
 */
function eachIndexed(boundaries: readonly Boundary[], take: (boundary: Boundary) => void): void {
  const tailFrom = boundaries.length - INDEXED_TAIL;
  for (let index = 0; index < boundaries.length; index += 1) {
    const boundary = boundaries[index];
    if (boundary && (index < INDEXED_HEAD || index >= tailFrom || boundary.marked)) take(boundary);
  }
}
