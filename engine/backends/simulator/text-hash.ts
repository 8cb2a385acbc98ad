/*
 * FNV-1a in two lanes of 32 bits over UTF-16 units. Not cryptographic: a prompt of millions of characters is hashed
 * between two steps, and a collision in a simulated cache is harmless.
 */

const PRIME = 0x01000193;
const FIRST_BASIS = 0x811c9dc5;
const SECOND_BASIS = 0x6a09e667;

/** A hash in two lanes, each an integer below 2^32, which can be extended. */
export type TextHash = { readonly first: number; readonly second: number };

export const EMPTY_HASH: TextHash = { first: FIRST_BASIS, second: SECOND_BASIS };

/** Extends the hash `before` by `text` from `start` up to `end`. */
export function hashText(text: string, before: TextHash = EMPTY_HASH, start = 0, end = text.length): TextHash {
  let { first, second } = before;
  for (let at = start; at < end; at += 1) {
    const unit = text.charCodeAt(at);
    first = Math.imul(first ^ unit, PRIME);
    // The lanes must differ by more than their initial values.
    second = Math.imul(second ^ (unit + at), PRIME) ^ (second >>> 15);
  }
  return { first: first >>> 0, second: second >>> 0 };
}

/** Returns a key of 53 bits of the hash. */
export function hashKey({ first, second }: TextHash): number {
  return first * 0x20_0000 + (second & 0x1f_ffff);
}
