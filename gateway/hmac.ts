import { createHmac, hash } from "node:crypto";

/*
 * HMAC with SHA-256 (RFC 2104) of short texts, in two one-shot hashes: making a digest that takes pieces costs twice as
 * much as all of that, and every request has some digests of it.
 */

/** The size of a block of SHA-256, to which HMAC fills keys, in bytes. */
export const HMAC_BLOCK_BYTES = 64;
/** The bytes of a whole digest. */
const SHA256_BYTES = 32;
/** The size of the longest text that is digested in one step here, in bytes; sessions and keys are far shorter. */
const SHORT_BYTES = 4_096;
/** The most bytes of UTF-8 that a character of a string can take. */
const MAX_CHARACTER_BYTES = 3;

/** The two parts of HMAC, each with its form of the key before it. Whoever has one digests one text at a time. */
export class HmacParts {
  /** The inner part: the text to digest is written behind its first `HMAC_BLOCK_BYTES`. */
  readonly inner: Buffer;
  readonly #outer = Buffer.alloc(HMAC_BLOCK_BYTES + SHA256_BYTES);

  /** Makes the parts for texts of at most so many bytes. They have no key yet. */
  constructor(textBytes: number) {
    this.inner = Buffer.allocUnsafeSlow(HMAC_BLOCK_BYTES + textBytes);
  }

  /** Writes the key into both parts, in place of the one before. */
  setKey(key: Uint8Array): void {
    const short = key.byteLength > HMAC_BLOCK_BYTES ? sha256(key) : key;
    for (let at = 0; at < HMAC_BLOCK_BYTES; at += 1) {
      const byte = short[at] ?? 0;
      this.inner[at] = byte ^ 0x36;
      this.#outer[at] = byte ^ 0x5c;
    }
  }

  /** Returns the digest of what the inner part holds up to `end`, 32 bytes. */
  digest(end: number): Buffer {
    this.#outer.write(hash("sha256", this.inner.subarray(0, end), "binary"), HMAC_BLOCK_BYTES, "latin1");
    return sha256(this.#outer);
  }
}

const parts = new HmacParts(SHORT_BYTES);

/** Returns the HMAC of a text in UTF-8 under a key, by SHA-256: 32 bytes. */
export function hmacSha256(key: Uint8Array, text: string): Buffer {
  if (text.length * MAX_CHARACTER_BYTES > SHORT_BYTES) return createHmac("sha256", key).update(text).digest();
  parts.setKey(key);
  return parts.digest(HMAC_BLOCK_BYTES + parts.inner.write(text, HMAC_BLOCK_BYTES));
}

/** Asking for a text of bytes, and making them of it, is a third cheaper than asking for the bytes. */
function sha256(bytes: Uint8Array): Buffer {
  return Buffer.from(hash("sha256", bytes, "binary"), "latin1");
}
