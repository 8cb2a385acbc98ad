import { BlockPrefixes, type PrefixPlace } from "../../prefixes/block-prefixes.ts";
import { HeldPrefixes } from "../../prefixes/held-prefixes.ts";
import { EMPTY_HASH, hashKey, hashText } from "./text-hash.ts";

/** The UTF-16 units of a block: 64 tokens. */
const BLOCK_UNITS = 256;
/** The tokens of a block. */
export const BLOCK_TOKENS = 64;

/**
 * Returns the identities of a text's whole blocks, each standing for all text up to its end. Under another `isolation`
 * the same text has other ones.
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

/** The places that digests name in a prompt of a model. */
export type NamedPlaces = {
  /** The id of the model. */
  readonly model: string;
  /** The places, from the first to the last; none where nobody is to be told of them. */
  readonly places: readonly PrefixPlace[];
};

/**
 * Remembers which prefixes the node still holds: the least recently used go first, and of one text its end before its
 * start.
 */
export class PrefixCache {
  readonly #capacity: number;
  readonly #nowMs: () => number;
  /** The time of the last use of each block that is held; the least recently used first. */
  readonly #blocks = new Map<number, number>();
  readonly #prefixes: BlockPrefixes<number>;
  #observedRetentionMs: number | undefined;
  /** Tells which prefixes are held by the digests of requests. */
  readonly held: HeldPrefixes;

  /** Makes an empty cache that holds `capacityTokens` tokens. `nowMs` is a monotonic clock in milliseconds. */
  constructor(capacityTokens: number, nowMs: () => number) {
    this.#capacity = Math.floor(capacityTokens / BLOCK_TOKENS);
    this.#nowMs = nowMs;
    this.held = new HeldPrefixes(() => ({ used: this.tokens, total: this.#capacity * BLOCK_TOKENS }));
    this.#prefixes = new BlockPrefixes(this.held, BLOCK_TOKENS);
  }

  /** The number of tokens that are held. */
  get tokens(): number {
    return this.#blocks.size * BLOCK_TOKENS;
  }

  /**
   * The time for which the block that was pushed out last had not been used, in milliseconds; undefined as long as
   * there was room for all.
   */
  get observedRetentionMs(): number | undefined {
    return this.#observedRetentionMs;
  }

  /** Returns the tokens of the longest prefix that is held. */
  cachedTokens(keys: readonly number[]): number {
    return this.#cachedBlocks(keys) * BLOCK_TOKENS;
  }

  /** Keeps the prefix, or as much of its start as fits, and tells what that means for the digests in it. */
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
