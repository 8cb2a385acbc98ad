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

  /** Returns the last piece that two prompts have in common; -1 for none. */
  common(last: number, otherLast: number): number {
    let [a, b] = [last, otherLast];
    while (a !== b)
      if (this.depth(a) > this.depth(b)) a = this.parent(a);
      else if (this.depth(b) > this.depth(a)) b = this.parent(b);
      else [a, b] = [this.parent(a), this.parent(b)];
    return a;
  }
}

export function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length);
  larger.set(array);
  return larger;
}

export type HeldPieces = Pick<PieceCaches, "cached" | "holders" | "tokens" | "capacity">;

/**
 * The order in which a full cache drops prefixes. `lru`: the least recently used first; `ended_first`: those of
 * conversations that have ended, then the least recently used; `known`: the same, but a conversation whose answer calls no
 * tools counts as used earlier, and one whose next request waits already goes last; `belady`: the latest next use first, by the recorded future.
 */
export const EVICTION_ORDERS = ["lru", "ended_first", "known", "belady"] as const;
export type EvictionOrder = (typeof EVICTION_ORDERS)[number];

export type CacheLimits = {
  /** The tokens of each cache. */
  readonly tokens: number;
  /** The conversations that each cache holds, in slots of equal size; undefined where all share its tokens. */
  readonly slots?: number | undefined;
  /** Default: `lru`. */
  readonly evict?: EvictionOrder | undefined;
};

/** When the pieces up to a piece are used again: milliseconds after the answer to their prompt, `Infinity` for never. */
export type NextUse = { readonly last: number; readonly afterMs: number };

/** The properties of a prompt that caches need. */
export type CachedPrompt = {
  readonly last: number;
  /** The name of the conversation. */
  readonly affinityKey: string;
  /** Whether its answer calls tools; otherwise a person writes next. */
  readonly callsTools: boolean;
  /** Whether no further prompt of the conversation follows. */
  readonly endsConversation: boolean;
  /** Returns the next uses of its pieces by the record, those of the beginning first. */
  readonly nextUses: () => readonly NextUse[];
};

/** The place of a running request in a cache. */
export type CachePlace = {
  /** The prompt is in the cache from now on. */
  prefilled(): void;
  /** The answer is complete. */
  done(): void;
};

/** The pieces up to `last`, which are kept and dropped together, the last one first; with slots: a slot. */
type Entry = {
  readonly conversation: string;
  last: number;
  usedMs: number;
  /** The entry with the lowest rank is dropped first. */
  rank: number;
  isRunning: boolean;
};

const RETENTION_RATE = 0.05;
const MAX_CACHES = 32;
/** The end of a conversation that its slot may lose to the next prompt, in tokens: artefacts of the records. */
const ARTEFACT_TOKENS = 128;
/** By how much earlier a conversation counts as used when a person writes next, in milliseconds. */
const PERSON_MS = 600_000;
/** Above all times, in milliseconds. */
const EVER_MS = 1e12;

/**
 * The prefix caches of several nodes, each bounded in tokens or in slots of one conversation each. They drop the end of a
 * prompt before its beginning; a cache with a piece therefore has all pieces before it. A new conversation takes an
 * empty slot, and the beginning that it shares with others is copied there.
 */
export class PieceCaches {
  readonly #store: PieceStore;
  readonly #limits: CacheLimits;
  readonly #nowMs: () => number;
  readonly #entries: readonly Set<Entry>[];
  /** The number of entries with a piece, by piece. */
  readonly #counts: readonly Map<number, number>[];
  readonly #tokens: number[];
  readonly #retentions: (number | undefined)[];
  /** The waiting requests by conversation. */
  readonly #waiting = new Map<string, number>();
  #holders = new Int32Array(1 << 16);

  /** Creates empty caches. `nowMs` returns the time in milliseconds. */
  constructor(store: PieceStore, count: number, limits: CacheLimits, nowMs: () => number) {
    if (count > MAX_CACHES) throw new Error(`more than ${MAX_CACHES} nodes cannot be replayed`);
    this.#store = store;
    this.#limits = limits;
    this.#nowMs = nowMs;
    this.#entries = Array.from({ length: count }, () => new Set());
    this.#counts = this.#entries.map(() => new Map());
    this.#tokens = this.#entries.map(() => 0);
    this.#retentions = this.#entries.map(() => undefined);
  }

  get capacity(): number {
    return this.#limits.tokens;
  }

  /** Returns the tokens in use; with slots those of all slots in use, however full. */
  tokens(cache: number): number {
    const { slots, tokens } = this.#limits;
    return slots === undefined ? (this.#tokens[cache] ?? 0) : ((this.#entries[cache]?.size ?? 0) * tokens) / slots;
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
    const tokens = this.#tokens.map((_, cache) => this.tokens(cache));
    return {
      capacity: this.capacity,
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
    const found = this.#entries.map(() => 0);
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

  /** A request of the conversation has arrived, and waits for its first token until the returned function is called. */
  waits(conversation: string): () => void {
    const add = (requests: number) =>
      this.#waiting.set(conversation, (this.#waiting.get(conversation) ?? 0) + requests);
    add(1);
    return () => add(-1);
  }

  /** Returns whether a further request can run: with slots, whether one of them is empty or only cached. */
  hasCapacity(cache: number): boolean {
    const { slots = Number.POSITIVE_INFINITY } = this.#limits;
    const entries = this.#entries[cache] ?? new Set();
    return entries.size < slots || [...entries].some(({ isRunning }) => !isRunning);
  }

  /** Begins a request; with slots it takes one, and there must be room. */
  begin(cache: number, prompt: CachedPrompt): CachePlace {
    if (this.#limits.slots !== undefined) return this.#takeSlot(cache, prompt);
    return {
      prefilled: () => this.#put(cache, prompt, [{ last: prompt.last, rank: this.#usedRank() }]),
      done: () => this.#put(cache, prompt, this.#ranks(prompt)),
    };
  }

  /** Holds the parts of a prompt, in place of those with the same end and of what it continues. */
  #put(cache: number, { last, affinityKey }: CachedPrompt, parts: readonly Pick<Entry, "last" | "rank">[]): void {
    const entries = this.#entries[cache] ?? new Set();
    const ends = new Set(parts.map((part) => part.last));
    const replaced = [...entries].filter(
      (entry) =>
        ends.has(entry.last) ||
        (entry.conversation === affinityKey && this.#store.common(entry.last, last) === entry.last),
    );
    const usedMs = this.#nowMs();
    for (const part of parts) {
      this.#retain(cache, part.last);
      entries.add({ ...part, conversation: affinityKey, usedMs, isRunning: false });
    }
    for (const entry of replaced) this.#drop(cache, entry);
    while (this.tokens(cache) > this.capacity) {
      const first = this.#firstToGo(cache);
      if (!first) return;
      this.#shorten(cache, first);
    }
  }

  /** Drops the end of an entry as far as needed and not shared with others. */
  #shorten(cache: number, entry: Entry): void {
    while (entry.last >= 0 && this.tokens(cache) > this.capacity) {
      if ((this.#counts[cache]?.get(entry.last) ?? 0) > 1) {
        this.#drop(cache, entry);
        return;
      }
      this.#release(cache, entry.last, 1);
      this.#evicted(cache, entry);
      entry.last = this.#store.parent(entry.last);
    }
    if (entry.last < 0) this.#entries[cache]?.delete(entry);
  }

  #takeSlot(cache: number, prompt: CachedPrompt): CachePlace {
    const entries = this.#entries[cache] ?? new Set();
    const { slots = 0, tokens } = this.#limits;
    let last = prompt.last;
    while (this.#store.depth(last) > tokens / slots) last = this.#store.parent(last);
    let slot = [...entries].find((entry) => !entry.isRunning && this.#continues(prompt, entry));
    if (!slot) {
      let copied = last;
      while (copied >= 0 && !this.#counts[cache]?.has(copied)) copied = this.#store.parent(copied);
      this.#retain(cache, copied);
      const victim = entries.size >= slots ? this.#firstToGo(cache) : undefined;
      if (victim) {
        this.#evicted(cache, victim);
        this.#drop(cache, victim);
      }
      slot = { conversation: prompt.affinityKey, last: copied, usedMs: 0, rank: 0, isRunning: true };
      entries.add(slot);
    }
    const taken = slot;
    taken.isRunning = true;
    return {
      prefilled: () => {
        this.#retain(cache, last);
        this.#release(cache, taken.last);
        taken.last = last;
      },
      done: () => {
        taken.isRunning = false;
        taken.usedMs = this.#nowMs();
        taken.rank = this.#ranks(prompt).at(-1)?.rank ?? 0;
      },
    };
  }

  #continues({ affinityKey, last }: CachedPrompt, entry: Entry): boolean {
    if (entry.conversation !== affinityKey) return false;
    const common = this.#store.common(entry.last, last);
    return this.#store.depth(entry.last) - this.#store.depth(common) <= ARTEFACT_TOKENS;
  }

  /** Returns the rank of a prompt in use. */
  #usedRank(): number {
    return this.#limits.evict === "belady" ? -this.#nowMs() : this.#nowMs();
  }

  /** Returns the parts of a prompt whose answer is complete, those of the beginning first. */
  #ranks(prompt: CachedPrompt): readonly Pick<Entry, "last" | "rank">[] {
    const { evict = "lru" } = this.#limits;
    const nowMs = this.#nowMs();
    const isLong = evict === "known" && !prompt.callsTools;
    if (evict === "lru" || (evict !== "belady" && !prompt.endsConversation))
      return [{ last: prompt.last, rank: isLong ? nowMs - PERSON_MS : nowMs }];
    return prompt.nextUses().map(({ last, afterMs }) => {
      if (afterMs === Number.POSITIVE_INFINITY) return { last, rank: nowMs - EVER_MS };
      return { last, rank: evict === "belady" ? -(nowMs + afterMs) : nowMs };
    });
  }

  #firstToGo(cache: number): Entry | undefined {
    let first: { readonly entry: Entry; readonly rank: number } | undefined;
    for (const entry of this.#entries[cache] ?? []) {
      const isKept = this.#limits.evict === "known" && (this.#waiting.get(entry.conversation) ?? 0) > 0;
      const rank = isKept ? entry.rank + EVER_MS : entry.rank;
      if (!entry.isRunning && (!first || rank < first.rank)) first = { entry, rank };
    }
    return first?.entry;
  }

  #drop(cache: number, entry: Entry): void {
    this.#release(cache, entry.last);
    this.#entries[cache]?.delete(entry);
  }

  #retain(cache: number, last: number): void {
    const counts = this.#counts[cache] ?? new Map();
    for (let piece = last; piece >= 0; piece = this.#store.parent(piece)) {
      const count = counts.get(piece) ?? 0;
      counts.set(piece, count + 1);
      if (count > 0) continue;
      while (piece >= this.#holders.length) this.#holders = grown(this.#holders);
      this.#holders[piece] = this.holders(piece) | (1 << cache);
      this.#tokens[cache] = (this.#tokens[cache] ?? 0) + this.#store.tokens(piece);
    }
  }

  /** Releases the pieces up to `last`, at most `pieces` of them from the end. */
  #release(cache: number, last: number, pieces = Number.POSITIVE_INFINITY): void {
    const counts = this.#counts[cache] ?? new Map();
    for (let piece = last, left = pieces; piece >= 0 && left > 0; piece = this.#store.parent(piece), left -= 1) {
      const count = counts.get(piece) ?? 1;
      if (count > 1) {
        counts.set(piece, count - 1);
        continue;
      }
      counts.delete(piece);
      this.#holders[piece] = this.holders(piece) & ~(1 << cache);
      this.#tokens[cache] = (this.#tokens[cache] ?? 0) - this.#store.tokens(piece);
    }
  }

  #evicted(cache: number, { usedMs }: Entry): void {
    const unusedMs = this.#nowMs() - usedMs;
    const before = this.#retentions[cache] ?? unusedMs;
    this.#retentions[cache] = before + RETENTION_RATE * (unusedMs - before);
  }
}
