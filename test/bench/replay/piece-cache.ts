import { grown, type PieceStore } from "./piece-store.ts";

/** The share of the newest eviction in the observed retention. */
const RETENTION_RATE = 0.05;
/** The most caches that there can be beside each other: the bits of a number. */
const MAX_CACHES = 32;

/**
 * The prefix caches of several nodes. Each is bounded in tokens, and evicts what was used longest ago, the end of a
 * prompt before its begin; so whoever has a piece has all that is before it.
 */
export class PieceCaches {
  readonly #store: PieceStore;
  readonly #capacity: number;
  readonly #nowMs: () => number;
  /** The moment of last use of every piece of each cache, in the order of use. */
  readonly #used: readonly Map<number, number>[];
  readonly #tokens: number[];
  readonly #retentions: (number | undefined)[];
  /** For each piece the caches that have it, a bit each. */
  #holders = new Int32Array(1 << 16);

  /** Makes empty caches with room for `capacity` tokens each. `nowMs` returns the time in milliseconds. */
  constructor(store: PieceStore, count: number, capacity: number, nowMs: () => number) {
    if (count > MAX_CACHES) throw new Error(`more than ${MAX_CACHES} nodes cannot be replayed`);
    this.#store = store;
    this.#capacity = capacity;
    this.#nowMs = nowMs;
    this.#used = Array.from({ length: count }, () => new Map());
    this.#tokens = this.#used.map(() => 0);
    this.#retentions = this.#used.map(() => undefined);
  }

  /** The number of tokens that each cache has room for. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Returns the tokens in a cache. */
  tokens(cache: number): number {
    return this.#tokens[cache] ?? 0;
  }

  /** Returns for how long a cache has lately kept what nobody used, in milliseconds; undefined until it evicted something. */
  retentionMs(cache: number): number | undefined {
    return this.#retentions[cache];
  }

  /** Returns the caches that have a piece, as bits. */
  holders(piece: number): number {
    return this.#holders[piece] ?? 0;
  }

  /** Returns how many tokens of the prompt that ends with the piece `last` are in a cache. */
  cached(cache: number, last: number): number {
    const bit = 1 << cache;
    let piece = last;
    while (piece >= 0 && (this.holders(piece) & bit) === 0) piece = this.#store.parent(piece);
    return this.#store.depth(piece);
  }

  /** Returns for every cache how many tokens of the prompt that ends with the piece `last` it has. */
  cachedEverywhere(last: number): number[] {
    const found = this.#used.map(() => 0);
    let seen = 0;
    for (let piece = last; piece >= 0; piece = this.#store.parent(piece)) {
      const added = this.holders(piece) & ~seen;
      if (added === 0) continue;
      for (let cache = 0; cache < found.length; cache += 1)
        if (added & (1 << cache)) found[cache] = this.#store.depth(piece);
      seen |= added;
    }
    return found;
  }

  /** Puts the prompt that ends with the piece `last` into a cache, as the one used last. */
  use(cache: number, last: number): void {
    const used = this.#used[cache];
    if (!used) return;
    const nowMs = this.#nowMs();
    const bit = 1 << cache;
    let tokens = this.tokens(cache);
    for (let piece = last; piece >= 0; piece = this.#store.parent(piece)) {
      if (!used.delete(piece)) {
        tokens += this.#store.tokens(piece);
        while (piece >= this.#holders.length) this.#holders = grown(this.#holders);
        this.#holders[piece] = this.holders(piece) | bit;
      }
      used.set(piece, nowMs);
    }
    for (const [piece, usedMs] of used) {
      if (tokens <= this.#capacity) break;
      used.delete(piece);
      this.#holders[piece] = this.holders(piece) & ~bit;
      tokens -= this.#store.tokens(piece);
      const before = this.#retentions[cache] ?? nowMs - usedMs;
      this.#retentions[cache] = before + RETENTION_RATE * (nowMs - usedMs - before);
    }
    this.#tokens[cache] = tokens;
  }
}
