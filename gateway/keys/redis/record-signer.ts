import { timingSafeEqual } from "node:crypto";
import { deriveKey, hmacSha256, type Pepper } from "../key-digest.ts";
import { type KeyRecord, keyRecordSchema } from "../key-record.ts";

/*
 * Texts in a store that other programs may be able to write. Each has a MAC under a key derived from the pepper, which
 * covers its use, too: `<MAC in hex> <text>`. The text of a record is the revision of the store at which it was
 * written and its JSON, and its use is the id.
 */

/** A record whose signature is valid. It is parsed only where its revision fits. */
type SignedRecord = { readonly revision: number; record(): KeyRecord | undefined };

export class RecordSigner {
  readonly #key: Buffer;

  constructor(pepper: Pepper) {
    this.#key = deriveKey(pepper, "svc key records");
  }

  sign(revision: number, record: KeyRecord): string {
    return this.signText(record.id, `${revision} ${JSON.stringify(record)}`);
  }

  /** Returns the record with this id from a stored text; undefined if its signature is not valid. */
  open(id: string, text: string): SignedRecord | undefined {
    const signed = this.openText(id, text) ?? "";
    const end = signed.indexOf(" ");
    if (!/^\d{1,15}$/.test(signed.slice(0, Math.max(0, end)))) return undefined;
    return { revision: Number(signed.slice(0, end)), record: () => readRecord(id, signed.slice(end + 1)) };
  }

  signText(use: string, text: string): string {
    return `${this.#mac(use, text).toString("hex")} ${text}`;
  }

  /** Returns the text that was signed for this use; undefined if the signature is not valid. */
  openText(use: string, signed: string): string | undefined {
    if (!/^[0-9a-f]{64} /.test(signed)) return undefined;
    const text = signed.slice(65);
    return timingSafeEqual(Buffer.from(signed.slice(0, 64), "hex"), this.#mac(use, text)) ? text : undefined;
  }

  #mac(use: string, text: string): Buffer {
    return hmacSha256(this.#key, `${use} ${text}`);
  }
}

function readRecord(id: string, json: string): KeyRecord | undefined {
  try {
    const record = keyRecordSchema.safeParse(JSON.parse(json)).data;
    return record?.id === id ? record : undefined;
  } catch {
    return undefined;
  }
}
