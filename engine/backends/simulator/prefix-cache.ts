import { BlockPrefixes, type PrefixPlace } from "../../prefixes/block-prefixes.ts";
import { HeldPrefixes } from "../../prefixes/held-prefixes.ts";
import { EMPTY_HASH, hashKey, hashText } from "./text-hash.ts";

/** The UTF-16 units of a block: 64 tokens. */
const BLOCK_UNITS = 256;
export const BLOCK_TOKENS = 64;

/**
 * Returns the keys of a text's whole blocks; each identifies all text up to its end. Keys differ between `isolation`
 * domains.
 */
export function blockKeys(text: string, isolation: string): readonly number[] {
  const keys: number[] = [];
  let hash = hashText(isolation, EMPTY_HASH);
  for (let end = BLOCK_UNITS; end <= text.length; end += BLOCK_UNITS) {
    hash = hashText(text, hash, end - BLOCK_UNITS, end);
    keys.push(hashKey(hash));
  }
  return keys;
}

export type NamedPlaces = {
  readonly model: string;
  /** The positions, in order; empty for a request without digests. */
  readonly places: readonly PrefixPlace[];
};

/** A simulated prefix cache of blocks with LRU eviction. Of one text, the end is evicted before the start. */
export class PrefixCache {
  readonly #capacity: number;
  readonly #nowMs: () => number;
  /** The time of the last use of each cached block, least recently used first. */
  readonly #blocks = new Map<number, number>();
  readonly #prefixes: BlockPrefixes<number>;
  #observedRetentionMs: number | undefined;
  /** The cached prefixes by the digests of requests. */
  readonly held: HeldPrefixes;

  constructor(capacityTokens: number, nowMs: () => number) {
    this.#capacity = Math.floor(capacityTokens / BLOCK_TOKENS);
    this.#nowMs = nowMs;
    this.held = new HeldPrefixes(() => ({ used: this.tokens, total: this.#capacity * BLOCK_TOKENS }));
    this.#prefixes = new BlockPrefixes(this.held, BLOCK_TOKENS);
  }

  get tokens(): number {
    return this.#blocks.size * BLOCK_TOKENS;
  }

  /** The idle time of the last evicted block, in milliseconds; undefined before the first eviction. */
  get observedRetentionMs(): number | undefined {
    return this.#observedRetentionMs;
  }

  /** Returns the length of the longest cached prefix, in tokens. */
  cachedTokens(keys: readonly number[]): number {
    return this.#cachedBlocks(keys) * BLOCK_TOKENS;
  }

  /** Stores the prefix, or as much of its start as fits, and updates the digests in it. */
  store(keys: readonly number[], { model, places }: NamedPlaces): void {
    this.#keep(keys);
    if (places.length > 0) this.#prefixes.stored({ model, places, blocks: keys }, this.#cachedBlocks(keys));
  }

  #cachedBlocks(keys: readonly number[]): number {
    const missing = keys.findIndex((key) => !this.#blocks.has(key));
    return missing < 0 ? keys.length : missing;
  }

  #keep(keys: readonly number[]): void {
    const now = this.#nowMs();
    for (let at = Math.min(keys.length, this.#capacity) - 1; at >= 0; at -= 1) {
      const key = keys[at];
      if (key === undefined) continue;
      this.#blocks.delete(key);
      this.#blocks.set(key, now);
    }
    for (const [key, usedAt] of this.#blocks) {
      if (this.#blocks.size <= this.#capacity) return;
      this.#blocks.delete(key);
      this.#prefixes.removed(key);
      this.#observedRetentionMs = now - usedAt;
    }
  }
}
