import { timingSafeEqual } from "node:crypto";
import { hmacSha256 } from "../hmac.ts";
import { deriveKey, type Pepper } from "./key-digest.ts";
import { type KeyRecord, keyRecordSchema } from "./key-record.ts";

/*
 * Records in a store that other programs may be able to write. Each has a MAC under a key derived from the pepper,
 * which covers the id, the revision of the store at which the record was written, and its JSON: `<MAC in hex>
 * <revision> <JSON>`.
 */

/** A verified record, with the revision of the store at which it was written. */
export type SignedRecord = { readonly revision: number; readonly record: KeyRecord };

/** Signs and verifies records under a key derived from the pepper. */
export class RecordSigner {
  readonly #key: Buffer;

  constructor(pepper: Pepper) {
    this.#key = deriveKey(pepper, "svc key records");
  }

  /** Returns the stored text of a record written at a revision of the store. */
  sign(revision: number, record: KeyRecord): string {
    return this.signText(record.id, `${revision} ${JSON.stringify(record)}`);
  }

  /** Returns the record with this id from a stored text; undefined if its signature is not valid. */
  open(id: string, text: string): SignedRecord | undefined {
    const signed = this.openText(id, text);
    const [, revision, json = ""] = /^(\d{1,15}) (.*)$/s.exec(signed ?? "") ?? [];
    const record = readRecord(json);
    return revision !== undefined && record?.id === id ? { revision: Number(revision), record } : undefined;
  }

  /** Signs a text for one use, `label`. */
  signText(label: string, text: string): string {
    return `${this.#mac(`${label} ${text}`).toString("hex")} ${text}`;
  }

  /** Returns the text that was signed for this use; undefined if the signature is not valid. */
  openText(label: string, signed: string): string | undefined {
    const [, mac = "", text = ""] = /^([0-9a-f]{64}) (.*)$/s.exec(signed) ?? [];
    const isGenuine = mac !== "" && timingSafeEqual(Buffer.from(mac, "hex"), this.#mac(`${label} ${text}`));
    return isGenuine ? text : undefined;
  }

  #mac(text: string): Buffer {
    return hmacSha256(this.#key, text);
  }
}

/** Returns the record in a stored text, signed or not; undefined if there is none. */
export function readUnverified(text: string): KeyRecord | undefined {
  return readRecord(text.slice(text.indexOf("{")));
}

function readRecord(json: string): KeyRecord | undefined {
  try {
    return keyRecordSchema.safeParse(JSON.parse(json)).data;
  } catch {
    return undefined;
  }
}
