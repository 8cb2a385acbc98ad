import type { Boundary } from "../../boundary-hashes.ts";
import type { PrefixAffinitySettings } from "./prefix-affinity-settings.ts";

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

/** The settings on how much a placement map remembers. */
export type PlacementSettings = Pick<PrefixAffinitySettings, "maxPrefixes" | "maxHolders">;

/** The number of boundaries at the end of a prompt that are remembered: the next turn branches off at one of them. */
const INDEXED_TAIL = 8;
/** The number of boundaries at the beginning of a prompt that are remembered, as other conversations share them. */
const INDEXED_HEAD = 2;

/**
 * Remembers which prefixes this gateway believes to be in which endpoint's cache. The map is bounded, and a prefix that
 * is not used expires.
 */
export class PlacementMap {
  readonly #settings: PlacementSettings;
  /** The holders of each prefix, by its hash, in the order of last use, as a Map keeps its order of insertion. */
  readonly #entries = new Map<string, readonly Holder[]>();
  /**
   * For each address, when a prefix that has since been evicted was last used: prefixes that were last used before are
   * gone, too.
   */
  readonly #evictedUntilMs = new Map<string, number>();

  constructor(settings: PlacementSettings) {
    this.#settings = settings;
  }

  /** The number of prefixes that are remembered. */
  get size(): number {
    return this.#entries.size;
  }

  /** Returns the endpoints that are believed, at the monotonic time `nowMs`, to hold the prefix that ends at `hash`. */
  holders(hash: string, nowMs: number): readonly Holder[] {
    const entry = this.#entries.get(hash);
    return entry ? entry.filter((holder) => this.#isBelieved(holder, nowMs)) : [];
  }

  /**
   * Notes that a request with these boundaries goes to the endpoint at `address`, or has been prefilled there
   * (`confirmed`). This begins or renews the sliding lifetime of its prefixes there, `ttlMs` milliseconds from the
   * monotonic time `nowMs`. `tokensPerByte` is what was measured for the prompt, else what is usual.
   */
  record(
    boundaries: readonly Boundary[],
    address: string,
    use: { tokensPerByte: number; ttlMs: number; nowMs: number; confirmed: boolean },
  ): void {
    for (const { hash, bytes } of indexed(boundaries)) {
      const before = this.holders(hash, use.nowMs);
      const same = before.find((holder) => holder.address === address);
      const holder: Holder = {
        address,
        tokens: use.confirmed || !same?.confirmed ? bytes * use.tokensPerByte : same.tokens,
        usedAtMs: use.nowMs,
        expiresAtMs: Math.max(use.nowMs + use.ttlMs, same?.expiresAtMs ?? 0),
        confirmed: use.confirmed || (same?.confirmed ?? false),
      };
      const others = before.filter((other) => other !== same);
      this.#entries.delete(hash);
      this.#entries.set(hash, [holder, ...others].slice(0, this.#settings.maxHolders));
    }
    this.#makeRoom();
  }

  /**
   * Notes that a request with these boundaries ended before the endpoint prefilled it: what was believed because of the
   * request alone is void.
   */
  withdraw(boundaries: readonly Boundary[], address: string): void {
    for (const { hash } of indexed(boundaries)) {
      const entry = this.#entries.get(hash) ?? [];
      this.#keep(
        hash,
        entry.filter((holder) => holder.address !== address || holder.confirmed),
      );
    }
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
    for (const [hash, entry] of this.#entries) {
      if (entry.some((holder) => holder.address === address)) {
        this.#keep(
          hash,
          entry.filter((holder) => holder.address !== address),
        );
      }
    }
  }

  #isBelieved({ address, usedAtMs, expiresAtMs }: Holder, nowMs: number): boolean {
    const evictedUntilMs = this.#evictedUntilMs.get(address);
    return nowMs < expiresAtMs && (evictedUntilMs === undefined || usedAtMs > evictedUntilMs);
  }

  #keep(hash: string, holders: readonly Holder[]): void {
    if (holders.length > 0) this.#entries.set(hash, holders);
    else this.#entries.delete(hash);
  }

  #makeRoom(): void {
    for (const hash of this.#entries.keys()) {
      if (this.#entries.size <= this.#settings.maxPrefixes) return;
      this.#entries.delete(hash);
    }
  }
}

/** Returns the boundaries that are worth remembering. Those in between were at the end of an earlier turn's prompt. */
function indexed(boundaries: readonly Boundary[]): readonly Boundary[] {
  if (boundaries.length <= INDEXED_HEAD + INDEXED_TAIL) return boundaries;
  return boundaries.filter(
    ({ marked }, index) => marked || index < INDEXED_HEAD || index >= boundaries.length - INDEXED_TAIL,
  );
}
