import { createHmac, hash } from "node:crypto";

/*
 * HMAC with SHA-256 (RFC 2104) of short texts, in two one-shot hashes: making a digest that takes pieces costs twice as
 * much as all of that, and every request has some digests of it.
 */

/** The size of a block of SHA-256, to which HMAC fills keys, in bytes. */
const BLOCK_BYTES = 64;
/** The bytes of a whole digest. */
const SHA256_BYTES = 32;
/** The size of the longest text that is digested in one step here, in bytes; sessions and keys are far shorter. */
const SHORT_BYTES = 4_096;
/** The most bytes of UTF-8 that a character of a string can take. */
const MAX_CHARACTER_BYTES = 3;

/** The two parts of HMAC, each with its form of the key before it: the text, and the digest of the inner one. */
const inner = Buffer.allocUnsafeSlow(BLOCK_BYTES + SHORT_BYTES);
const outer = Buffer.alloc(BLOCK_BYTES + SHA256_BYTES);

/** Returns the HMAC of a text in UTF-8 under a key, by SHA-256: 32 bytes. */
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

/** Asking for a text of bytes, and making them of it, is a third cheaper than asking for the bytes. */
function sha256(bytes: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", bytes, "binary"), "latin1");
}
