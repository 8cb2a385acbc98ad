import { timingSafeEqual } from "node:crypto";
import { deriveKey, hmacSha256, type Pepper } from "../key-digest.ts";

/**
 * Signs texts in a store that other programs may be able to write: `<MAC in hex> <text>`. The MAC is under a key derived
 * from the pepper, and covers the use of the text, too.
 */
export class TextSigner {
  readonly #key: Buffer;

  constructor(pepper: Pepper) {
    this.#key = deriveKey(pepper, "svc key records");
  }

  sign(use: string, text: string): string {
    return `${this.#mac(use, text).toString("hex")} ${text}`;
  }

  /** Returns the text that was signed for this use; undefined if the signature is not valid. */
  open(use: string, signed: string): string | undefined {
    if (!/^[0-9a-f]{64} /.test(signed)) return undefined;
    const text = signed.slice(65);
    return timingSafeEqual(Buffer.from(signed.slice(0, 64), "hex"), this.#mac(use, text)) ? text : undefined;
  }

  #mac(use: string, text: string): Buffer {
    return hmacSha256(this.#key, `${use} ${text}`);
  }
}
