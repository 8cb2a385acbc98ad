import { createHmac, hash, hkdfSync, timingSafeEqual } from "node:crypto";

/*
 * Secrets at rest. A key holds 256 random bits, so a fast keyed digest is enough: it cannot be guessed, and a slow
 * password hash would only let strangers use up the CPU. A stolen key file is worthless without the pepper.
 */

export const PEPPER_BYTES = 32;

const DIGEST_BYTES = 32;

/** The secret in use and, during a rotation, the one before. */
export const MAX_SECRETS = 2;

/** A digest that no record has: comparing with it takes the same time if no digest is stored. */
const NO_DIGEST = Buffer.alloc(DIGEST_BYTES);

/** The secret that keys the digests of keys. It is stored apart from them. */
export type Pepper = {
  /** 8 hex digits that distinguish peppers and reveal nothing about the bytes. */
  readonly id: string;
  readonly bytes: Buffer;
};

export function makePepper(bytes: Buffer): Pepper {
  if (bytes.length !== PEPPER_BYTES) throw new RangeError(`a pepper has ${PEPPER_BYTES} bytes`);
  return { id: hmacSha256(bytes, "pepper-id").toString("hex").slice(0, 8), bytes };
}

export function keyDigest(pepper: Pepper, key: string): Buffer {
  return hmacSha256(pepper.bytes, key);
}

/** Derives a key of 32 bytes for one use, `label`. It reveals neither the pepper nor the key of another use. */
export function deriveKey({ bytes }: Pepper, label: string): Buffer {
  return Buffer.from(hkdfSync("sha256", bytes, "", label, 32));
}

/** Returns a pseudonym of `parts` in one use, `label`: 32 bytes that cannot be reversed without the pepper. */
export function pseudonym(pepper: Pepper, label: string, parts: readonly string[]): Buffer {
  return hmacSha256(pepper.bytes, JSON.stringify([label, ...parts]));
}

/**
 * Returns the position of `presented` in `stored`, or -1, in constant time: it does not depend on the position of the
 * match or on the number of digests. The caller passes an empty list for an unknown id. All digests have 32 bytes.
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

/*
 * HMAC-SHA256 (RFC 2104) of short texts, in two one-shot hashes: an incremental hash object costs twice as much, and
 * every request needs several digests.
 */

/** Block of SHA-256 in bytes, to which HMAC pads keys. */
const BLOCK_BYTES = 64;
const SHA256_BYTES = 32;
/** Longest text, in bytes, that is digested in one step; session ids and keys are far shorter. */
const SHORT_BYTES = 4_096;
/** Most bytes of UTF-8 per UTF-16 code unit. */
const MAX_CHARACTER_BYTES = 3;

/** The two inputs of HMAC, each after its padded key: the text, and the inner digest. */
const inner = Buffer.allocUnsafeSlow(BLOCK_BYTES + SHORT_BYTES);
const outer = Buffer.alloc(BLOCK_BYTES + SHA256_BYTES);

/** Returns the HMAC-SHA256 of a UTF-8 text under a key: 32 bytes. */
export function hmacSha256(key: Uint8Array, text: string): Buffer {
  if (text.length * MAX_CHARACTER_BYTES > SHORT_BYTES) return createHmac("sha256", key).update(text).digest();
  const short = key.byteLength > BLOCK_BYTES ? sha256(key) : key;
  for (let at = 0; at < BLOCK_BYTES; at += 1) {
    const byte = short[at] ?? 0;
    inner[at] = byte ^ 0x36;
    outer[at] = byte ^ 0x5c;
  }
  const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES);
  outer.write(hash("sha256", inner.subarray(0, end), "binary"), BLOCK_BYTES, "latin1");
  return sha256(outer);
}

/** Requesting a binary string and converting it is a third cheaper than requesting a buffer. */
function sha256(bytes: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", bytes, "binary"), "latin1");
}
