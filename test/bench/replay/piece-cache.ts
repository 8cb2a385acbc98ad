import { grown, type PieceStore } from "./piece-store.ts";

/** The weight of the newest eviction in the observed retention. */
const RETENTION_RATE = 0.05;
/** The maximum number of caches: the bits of a number. */
const MAX_CACHES = 32;

/**
 * The prefix caches of several nodes, each bounded in tokens. They evict the least recently used piece, the end of a
 * prompt before its beginning; a cache with a piece therefore has all pieces before it.
 */
export class PieceCaches {
  readonly #store: PieceStore;
  readonly #capacity: number;
  readonly #nowMs: () => number;
  /** The time of last use of the pieces in each cache, in order of use. */
  readonly #used: readonly Map<number, number>[];
  readonly #tokens: number[];
  readonly #retentions: (number | undefined)[];
  /** The caches that hold each piece, as a bit mask. */
  #holders = new Int32Array(1 << 16);

  /** Creates empty caches of `capacity` tokens each. `nowMs` returns the time in milliseconds. */
  constructor(store: PieceStore, count: number, capacity: number, nowMs: () => number) {
    if (count > MAX_CACHES) throw new Error(`more than ${MAX_CACHES} nodes cannot be replayed`);
    this.#store = store;
    this.#capacity = capacity;
    this.#nowMs = nowMs;
    this.#used = Array.from({ length: count }, () => new Map());
    this.#tokens = this.#used.map(() => 0);
    this.#retentions = this.#used.map(() => undefined);
  }

  get capacity(): number {
    return this.#capacity;
  }

  tokens(cache: number): number {
    return this.#tokens[cache] ?? 0;
  }

  /** Returns the recent retention of unused pieces, in milliseconds; undefined before the first eviction. */
  retentionMs(cache: number): number | undefined {
    return this.#retentions[cache];
  }

  /** Returns the caches that hold a piece, as a bit mask. */
  holders(piece: number): number {
    return this.#holders[piece] ?? 0;
  }

  /** Returns the cached tokens of the prompt that ends with the piece `last`. */
  cached(cache: number, last: number): number {
    const bit = 1 << cache;
    let piece = last;
    while (piece >= 0 && (this.holders(piece) & bit) === 0) piece = this.#store.parent(piece);
    return this.#store.depth(piece);
  }

  /** Returns, for every cache, the cached tokens of the prompt that ends with the piece `last`. */
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

  /** Adds the prompt that ends with the piece `last` to a cache, as most recently used. */
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
