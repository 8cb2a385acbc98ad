import { hkdfSync, timingSafeEqual } from "node:crypto";
import { hmacSha256 } from "../hmac.ts";

/*
 * Secrets at rest. A key holds 256 random bits, so a fast keyed digest is enough: there is nothing to guess, and a slow
 * password hash would only let strangers burn our CPU. The pepper makes a stolen key file worthless by itself.
 */

/** The length of a pepper, in bytes. */
export const PEPPER_BYTES = 32;

const DIGEST_BYTES = 32;

/** The most secrets that a key has: the one in use and, while rotating, the one before. */
export const MAX_SECRETS = 2;

/**
 * A digest that never stands in a record: comparing with it keeps the work the same where there is none to compare
 * with.
 */
const NO_DIGEST = Buffer.alloc(DIGEST_BYTES);

/** The secret that digests of keys are made with, which lies apart from them. */
export type Pepper = {
  /** The name of the pepper: 8 hex digits that tell one from another and nothing about its bytes. */
  readonly id: string;
  /** The secret itself, 32 random bytes. */
  readonly bytes: Buffer;
};

/** Makes a pepper of 32 random bytes. Throws RangeError for another number of bytes. */
export function makePepper(bytes: Buffer): Pepper {
  if (bytes.length !== PEPPER_BYTES) throw new RangeError(`a pepper has ${PEPPER_BYTES} bytes`);
  return { id: hmacSha256(bytes, "pepper-id").toString("hex").slice(0, 8), bytes };
}

/** Returns the digest of a key, 32 bytes, which is stored in the key's place. */
export function keyDigest(pepper: Pepper, key: string): Buffer {
  return hmacSha256(pepper.bytes, key);
}

/** Derives the key of one use, `label`, 32 bytes: neither the pepper nor the key of another use follows from it. */
export function deriveKey({ bytes }: Pepper, label: string): Buffer {
  return Buffer.from(hkdfSync("sha256", bytes, "", label, 32));
}

/** Returns 32 bytes that stand for `parts` in one use, `label`, and cannot be led back to them without the pepper. */
export function pseudonym(pepper: Pepper, label: string, parts: readonly string[]): Buffer {
  return hmacSha256(pepper.bytes, JSON.stringify([label, ...parts]));
}

/**
 * Returns the position of `presented` in `stored`, or -1. It takes the same time wherever the match is, and whether
 * there is one or anything to compare with: the caller passes an empty list for an id that it does not know. All
 * digests have 32 bytes.
 */
export function matchDigest(presented: Buffer, stored: readonly Buffer[]): number {
  let found = -1;
  for (let position = 0; position < MAX_SECRETS; position += 1) {
    const known = stored[position];
    const same = timingSafeEqual(presented, known ?? NO_DIGEST);
    if (same && known !== undefined) found = position;
  }
  return found;
}
