const INITIAL_ROOM = 1 << 16;

/**
 * The pieces of prompts, by number. A piece represents its own tokens after all pieces before it, so the pieces form
 * trees, and the last piece identifies a prompt.
 */
export class PieceStore {
  #parents = new Int32Array(INITIAL_ROOM);
  #depths = new Int32Array(INITIAL_ROOM);
  #count = 0;

  add(parent: number, tokens: number): number {
    if (this.#count === this.#parents.length) {
      this.#parents = grown(this.#parents);
      this.#depths = grown(this.#depths);
    }
    const piece = this.#count;
    this.#count += 1;
    this.#parents[piece] = parent;
    this.#depths[piece] = this.depth(parent) + tokens;
    return piece;
  }

  parent(piece: number): number {
    return this.#parents[piece] ?? -1;
  }

  /** Returns the tokens from the beginning of the prompt to the end of a piece; 0 for -1. */
  depth(piece: number): number {
    return piece < 0 ? 0 : (this.#depths[piece] ?? 0);
  }

  tokens(piece: number): number {
    return this.depth(piece) - this.depth(this.parent(piece));
  }
}

export function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length);
  larger.set(array);
  return larger;
}

export type HeldPieces = Pick<PieceCaches, "cached" | "holders" | "tokens" | "capacity">;

const RETENTION_RATE = 0.05;
const MAX_CACHES = 32;

/**
 * The prefix caches of several nodes, each bounded in tokens. They evict the least recently used piece, the end of a
 * prompt before its beginning; a cache with a piece therefore has all pieces before it.
 */
export class PieceCaches {
  readonly #store: PieceStore;
  readonly #capacity: number;
  readonly #nowMs: () => number;
  readonly #used: readonly Map<number, number>[];
  readonly #tokens: number[];
  readonly #retentions: (number | undefined)[];
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

  holders(piece: number): number {
    return this.#holders[piece] ?? 0;
  }

  cached(cache: number, last: number): number {
    return this.#cached(this.#holders, cache, last);
  }

  /** Returns the pieces that the caches hold now, and go on to hold in this view. */
  snapshot(): HeldPieces {
    const holders = this.#holders.slice();
    const tokens = [...this.#tokens];
    return {
      capacity: this.#capacity,
      tokens: (cache) => tokens[cache] ?? 0,
      holders: (piece) => holders[piece] ?? 0,
      cached: (cache, last) => this.#cached(holders, cache, last),
    };
  }

  #cached(holders: Int32Array, cache: number, last: number): number {
    const bit = 1 << cache;
    let piece = last;
    while (piece >= 0 && ((holders[piece] ?? 0) & bit) === 0) piece = this.#store.parent(piece);
    return this.#store.depth(piece);
  }

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
