import { LRUCache } from "lru-cache";
import type { Boundary } from "../../boundary-hashes.ts";

/** The belief that an endpoint has a prefix in its cache. */
export type Holder = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The size of the prefix in tokens. */
  readonly tokens: number;
  /** Monotonic milliseconds of the last request there that used the prefix. */
  readonly usedAtMs: number;
  /** Monotonic milliseconds at which the belief expires. */
  readonly expiresAtMs: number;
  /** Whether the engine reported the prefill of the prefix; otherwise a request with it is on its way there. */
  readonly confirmed: boolean;
};

/** The most prefixes in the map, some 400 bytes each; the least recently used are evicted first. */
const MAX_PREFIXES = 50_000;
/** The most endpoints stored for one prefix; a head that all sessions share is soon cached everywhere. */
const MAX_HOLDERS = 8;

/** The use of prefixes by one request on an endpoint. */
type PrefixUse = {
  readonly tokensPerByte: number;
  readonly ttlMs: number;
  readonly nowMs: number;
  readonly confirmed: boolean;
};

/** The number of boundaries stored from the end of a prompt: the next turn branches off at one of them. */
const INDEXED_TAIL = 8;
/** The number of boundaries stored from the beginning of a prompt: other conversations share them. */
const INDEXED_HEAD = 2;
const NOBODY: readonly Holder[] = [];

/**
 * Stores which prefixes this gateway believes to be in the cache of which endpoint. The map is bounded, and unused
 * prefixes expire.
 */
export class PlacementMap {
  /** The holders of each prefix, by its hash. */
  readonly #entries: LRUCache<string, readonly Holder[]>;
  /** By address, the last use of the latest prefix found evicted: prefixes last used before that are evicted, too. */
  readonly #evictedUntilMs = new Map<string, number>();

  constructor(maxPrefixes = MAX_PREFIXES) {
    this.#entries = new LRUCache({ max: maxPrefixes });
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Returns the endpoints believed, at the monotonic time `nowMs`, to hold the prefix that ends at `hash`. */
  holders(hash: string, nowMs: number): readonly Holder[] {
    const entry = this.#entries.get(hash);
    if (!entry) return NOBODY;
    // Runs for every request, and nearly all holders are live.
    for (const holder of entry)
      if (!this.#isBelieved(holder, nowMs)) return entry.filter((one) => this.#isBelieved(one, nowMs));
    return entry;
  }

  /**
   * Records that a request with these boundaries is sent to the endpoint at `address`, or was prefilled there
   * (`confirmed`). This starts or renews the sliding lifetime of its prefixes there, `ttlMs` milliseconds from the
   * monotonic time `nowMs`. `tokensPerByte` is the ratio measured for the prompt, else the typical one.
   */
  record(boundaries: readonly Boundary[], address: string, use: PrefixUse): void {
    eachIndexed(boundaries, ({ hash, bytes }) => this.#use(hash, bytes, address, use));
  }

  /**
   * Records that a request with these boundaries ended before the endpoint prefilled it: beliefs that rest on the
   * request alone are removed.
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
   * Records that the endpoint no longer holds a prefix last used at `usedAtMs`. Caches evict the least recently used,
   * so that prefixes last used before it are removed, too.
   */
  evicted(address: string, usedAtMs: number): void {
    this.#evictedUntilMs.set(address, Math.max(usedAtMs, this.#evictedUntilMs.get(address) ?? usedAtMs));
  }

  /** Removes all beliefs about an endpoint that left, or restarted with an empty cache. */
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

/** Calls `take` with the boundaries to store. Those in between were at the end of an earlier turn's prompt. */
function eachIndexed(boundaries: readonly Boundary[], take: (boundary: Boundary) => void): void {
  const tailFrom = boundaries.length - INDEXED_TAIL;
  for (let index = 0; index < boundaries.length; index += 1) {
    const boundary = boundaries[index];
    if (boundary && (index < INDEXED_HEAD || index >= tailFrom || boundary.marked)) take(boundary);
  }
}
