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

/**
 * Remembers which prefixes the node still holds: the least recently used go first, and of one text its end before its
 * start.
 */
export class PrefixCache {
  readonly #capacity: number;
  readonly #nowMs: () => number;
  /** The time of the last use of each block that is held; the least recently used first. */
  readonly #blocks = new Map<number, number>();
  #observedRetentionMs: number | undefined;

  /** Makes an empty cache that holds `capacityTokens` tokens. `nowMs` is a monotonic clock in milliseconds. */
  constructor(capacityTokens: number, nowMs: () => number) {
    this.#capacity = Math.floor(capacityTokens / BLOCK_TOKENS);
    this.#nowMs = nowMs;
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
    const missing = keys.findIndex((key) => !this.#blocks.has(key));
    return (missing < 0 ? keys.length : missing) * BLOCK_TOKENS;
  }

  /** Keeps the prefix, or as much of its start as fits. */
  store(keys: readonly number[]): void {
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
      this.#observedRetentionMs = now - usedAt;
    }
  }
}
