import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";

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

/** Returns the HMAC-SHA256 of a UTF-8 text under a key: 32 bytes. */
export function hmacSha256(key: Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/**
 * Signs a text for a store that other programs may be able to write: `<MAC in hex> <text>`. The MAC is under a key
 * derived from the pepper, and covers the use of the text, too.
 */
export function signText(pepper: Pepper, use: string, text: string): string {
  return `${hmacSha256(deriveKey(pepper, "svc key records"), `${use} ${text}`).toString("hex")} ${text}`;
}

/** Returns the text that was signed for this use; undefined if the signature is not valid. */
export function signedText(pepper: Pepper, use: string, signed: string): string | undefined {
  const text = signed.slice(signed.indexOf(" ") + 1);
  const [found, genuine] = [signed, signText(pepper, use, text)].map((each) => Buffer.from(each));
  return found && genuine && found.length === genuine.length && timingSafeEqual(found, genuine) ? text : undefined;
}
