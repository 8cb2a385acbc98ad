import { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import type { PrefixPlace } from "../../../../engine/prefixes/slot-prefixes.ts";
import { BlockPrefixes } from "./block-prefixes.ts";

const PRIME = 0x01000193;
const FIRST_BASIS = 0x811c9dc5;
const SECOND_BASIS = 0x6a09e667;

/** A hash in two lanes, each an integer below 2^32: FNV-1a over UTF-16 units. */
type TextHash = { readonly first: number; readonly second: number };

const EMPTY_HASH: TextHash = { first: FIRST_BASIS, second: SECOND_BASIS };

export function hashText(text: string, before = EMPTY_HASH, start = 0, end = text.length): TextHash {
  let { first, second } = before;
  for (let at = start; at < end; at += 1) {
    const unit = text.charCodeAt(at);
    first = Math.imul(first ^ unit, PRIME);
    // The lanes must differ by more than their initial values.
    second = Math.imul(second ^ (unit + at), PRIME) ^ (second >>> 15);
  }
  return { first: first >>> 0, second: second >>> 0 };
}

function hashKey({ first, second }: TextHash): number {
  return first * 0x20_0000 + (second & 0x1f_ffff);
}

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
  readonly places: readonly PrefixPlace[];
};

/** A simulated prefix cache of blocks with LRU eviction. Of one text, the end is evicted before the start. */
export class PrefixCache {
  readonly #capacity: number;
  readonly #nowMs: () => number;
  readonly #blocks = new Map<number, number>();
  readonly #prefixes: BlockPrefixes<number>;
  #observedRetentionMs: number | undefined;
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

  cachedTokens(keys: readonly number[]): number {
    return this.#cachedBlocks(keys) * BLOCK_TOKENS;
  }

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
