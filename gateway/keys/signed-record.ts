import { timingSafeEqual } from "node:crypto";
import { hmacSha256 } from "../hmac.ts";
import { deriveKey, type Pepper } from "./key-digest.ts";
import { type KeyRecord, keyRecordSchema } from "./key-record.ts";

/*
 * Records in a store that others may be able to write. Each has a MAC under a key derived from the pepper, which covers
 * the id, the revision of the store at which the record was written, and its JSON: `<MAC in hex> <revision> <JSON>`.
 */

/** A record whose signature fits, with the revision of the store at which it was written. */
export type SignedRecord = { readonly revision: number; readonly record: KeyRecord };

/** Signs records, and checks what was signed, under the key that a pepper gives. */
export class RecordSigner {
  readonly #key: Buffer;

  constructor(pepper: Pepper) {
    this.#key = deriveKey(pepper, "svc key records");
  }

  /** Returns the stored text of a record that is written at a revision of the store. */
  sign(revision: number, record: KeyRecord): string {
    return this.signText(record.id, `${revision} ${JSON.stringify(record)}`);
  }

  /** Returns the record with this id that a stored text holds; undefined where its signature does not fit. */
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

  /** Returns the text that was signed for this use; undefined where the signature does not fit. */
  openText(label: string, signed: string): string | undefined {
    const [, mac = "", text = ""] = /^([0-9a-f]{64}) (.*)$/s.exec(signed) ?? [];
    const isGenuine = mac !== "" && timingSafeEqual(Buffer.from(mac, "hex"), this.#mac(`${label} ${text}`));
    return isGenuine ? text : undefined;
  }

  #mac(text: string): Buffer {
    return hmacSha256(this.#key, text);
  }
}

/** Returns the record that a stored text holds, signed or not; undefined where it holds none. */
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
