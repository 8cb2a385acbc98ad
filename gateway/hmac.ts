import { createHmac, hash } from "node:crypto";

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
