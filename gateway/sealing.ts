import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto";
import type { Sealer } from "./formats/format.ts";

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Makes sealers for tenants from one secret: AES-256-GCM with a key of the tenant's own, so that what one tenant was
 * given does not open for another. Nothing is stored; the caller carries the sealed text.
 */
export class Sealing {
  readonly #secret: Buffer;

  /**
   * Makes the sealing of one secret, which has at least 32 bytes and is the same on all gateways whose callers may meet
   * either of them. Throws RangeError for fewer bytes.
   */
  constructor(secret: Buffer) {
    if (secret.length < 32) throw new RangeError("the sealing key has fewer than 32 bytes");
    this.#secret = secret;
  }

  /** Makes a sealing with a secret that ends with the process. */
  static random(): Sealing {
    return new Sealing(randomBytes(32));
  }

  /** Returns the sealer of one tenant. */
  for(tenant: string): Sealer {
    const derive = (purpose: string) =>
      Buffer.from(hkdfSync("sha256", this.#secret, "", `svc ${purpose} ${tenant}`, 32));
    // Derived at first use: most requests carry no reasoning.
    let sealKey: Buffer | undefined;
    let signKey: Buffer | undefined;
    return {
      sign(text) {
        signKey ??= derive("sign");
        return createHmac("sha256", signKey).update(text).digest("base64");
      },
      seal(text) {
        sealKey ??= derive("seal");
        return seal(sealKey, text);
      },
      open(sealed) {
        sealKey ??= derive("seal");
        return open(sealKey, sealed);
      },
    };
  }

  /**
   * Returns a pseudonymous digest in base64url that only this service can make, for identities that leave the gateway.
   */
  digest(purpose: string, ...parts: readonly string[]): string {
    return this.key(purpose, ...parts).toString("base64url");
  }

  /** Returns 32 bytes that differ for every purpose and for every list of parts. */
  key(purpose: string, ...parts: readonly string[]): Buffer {
    const mac = createHmac("sha256", this.#secret).update(purpose);
    // The lengths keep ("ab", "c") and ("a", "bc") apart.
    for (const part of parts) mac.update(`\0${Buffer.byteLength(part)}\0`).update(part);
    return mac.digest();
  }
}

function seal(key: Buffer, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body]).toString("base64");
}

function open(key: Buffer, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, "base64");
  const start = 1 + NONCE_BYTES + TAG_BYTES;
  if (bytes.length < start || bytes[0] !== VERSION) return undefined;
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(1, 1 + NONCE_BYTES));
  decipher.setAuthTag(bytes.subarray(1 + NONCE_BYTES, start));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()]).toString("utf8");
  } catch {
    // Not ours, or not this tenant's.
    return undefined;
  }
}
