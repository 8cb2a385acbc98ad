import { HeldPrefixes } from "../../../../engine/prefixes/held-prefixes.ts";
import type { PrefixPlace } from "../../../../engine/prefixes/slot-prefixes.ts";

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

/** Returns the keys of a text's whole blocks, each of all text up to its end; they differ by `isolation`. */
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

/** A digest's prompt in blocks up to its position, and the blocks behind it up to the next digest of the newest text. */
type Prefix = {
  readonly model: string;
  readonly needed: number;
  /** The last of the needed blocks. It is cached only as long as all blocks before it. */
  readonly last: number;
  readonly tail: readonly number[];
  /** Whether another digest follows at the end of the tail. */
  readonly goesOn: boolean;
};

/** A simulated prefix cache of blocks with LRU eviction. Of one text, the end is evicted before the start. */
export class PrefixCache {
  readonly #capacity: number;
  readonly #nowMs: () => number;
  readonly #blocks = new Map<number, number>();
  readonly #prefixes = new Map<string, Prefix>();
  #observedRetentionMs: number | undefined;
  readonly held: HeldPrefixes;

  constructor(capacityTokens: number, nowMs: () => number) {
    this.#capacity = Math.floor(capacityTokens / BLOCK_TOKENS);
    this.#nowMs = nowMs;
    this.held = new HeldPrefixes(() => ({ used: this.tokens, total: this.#capacity * BLOCK_TOKENS }));
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
    const isFull = this.#keep(keys);
    const needs = places.map(({ tokens }) => Math.min(keys.length, Math.floor(tokens / BLOCK_TOKENS)));
    for (const [index, { digest }] of places.entries()) {
      const [needed = 0, next] = needs.slice(index);
      const last = keys[needed - 1] ?? Number.NaN;
      this.#prefixes.set(digest, { model, needed, last, tail: keys.slice(needed, next), goesOn: next !== undefined });
    }
    for (const digest of isFull ? [...this.#prefixes.keys()] : places.map((place) => place.digest))
      this.#report(digest);
  }

  #report(digest: string): void {
    const prefix = this.#prefixes.get(digest);
    if (!prefix || !this.#blocks.has(prefix.last)) {
      this.#prefixes.delete(digest);
      this.held.drop(digest);
      return;
    }
    const { model, needed, tail, goesOn } = prefix;
    const heldTail = this.#cachedBlocks(tail);
    const tailTokens = goesOn && heldTail === tail.length ? 0 : heldTail * BLOCK_TOKENS;
    this.held.hold(digest, { model, tokens: needed * BLOCK_TOKENS, tailTokens });
  }

  #cachedBlocks(keys: readonly number[]): number {
    const missing = keys.findIndex((key) => !this.#blocks.has(key));
    return missing < 0 ? keys.length : missing;
  }

  /** Returns whether blocks were evicted. */
  #keep(keys: readonly number[]): boolean {
    const now = this.#nowMs();
    for (let at = Math.min(keys.length, this.#capacity) - 1; at >= 0; at -= 1) {
      const key = keys[at];
      if (key === undefined) continue;
      this.#blocks.delete(key);
      this.#blocks.set(key, now);
    }
    const isFull = this.#blocks.size > this.#capacity;
    for (const [key, usedAt] of this.#blocks) {
      if (this.#blocks.size <= this.#capacity) break;
      this.#blocks.delete(key);
      this.#observedRetentionMs = now - usedAt;
    }
    return isFull;
  }
}
