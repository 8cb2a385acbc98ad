import { keyDigest, makePepper, matchDigest, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { idOfKey } from "./key-format.ts";
import type { KeyRecord, KeySet } from "./key-record.ts";
import { makePrincipal, type Principal } from "./principal.ts";

/** Why a key was refused; operators see it, callers never do. A valid id with a wrong secret is also `unknown`. */
export type KeyRefusal = "malformed" | "unknown" | "disabled" | "revoked" | "expired";

export type KeyLookup = { readonly principal: Principal } | { readonly refused: KeyRefusal };

type Entry = {
  readonly record: KeyRecord;
  readonly principal: Principal;
  readonly expiresAtMs: number;
  readonly digests: readonly Buffer[];
  /** When each digest expires, in milliseconds since the epoch, in the order of the digests. */
  readonly notAfterMs: readonly number[];
};

const NO_DIGESTS: readonly Buffer[] = [];

function instantMs(text: string | null): number {
  return text === null ? Number.POSITIVE_INFINITY : Date.parse(text);
}

function makeEntry(record: KeyRecord, pepper: Pepper): Entry {
  return {
    record,
    principal: makePrincipal(record, pepper),
    expiresAtMs: instantMs(record.expiresAt),
    digests: record.secrets.map((secret) => Buffer.from(secret.hash, "base64url")),
    notAfterMs: record.secrets.map((secret) => instantMs(secret.notAfter)),
  };
}

export class KeyTable {
  readonly #pepper: Pepper;
  readonly #entries = new Map<string, Entry>();
  /** Numbers of records by status, kept because a walk over 100,000 takes milliseconds. */
  readonly counts = { active: 0, disabled: 0, revoked: 0 };

  /** Makes an empty table. `pepper` may be undefined only if no record is added. */
  constructor(pepper: Pepper | undefined) {
    // A digest is computed without any key, too, so that an empty store does not answer faster.
    this.#pepper = pepper ?? makePepper(Buffer.alloc(PEPPER_BYTES));
  }

  *records(): Generator<KeyRecord> {
    for (const { record } of this.#entries.values()) yield record;
  }

  record(id: string): KeyRecord | undefined {
    return this.#entries.get(id)?.record;
  }

  /** Adds or replaces a record. Its entry in another table is reused, because computing the digests of a key is slow. */
  put(record: KeyRecord, from?: KeyTable): void {
    const known = from && from.#pepper.id === this.#pepper.id ? from.#entries.get(record.id) : undefined;
    const entry = known?.record === record ? known : makeEntry(record, this.#pepper);
    this.remove(record.id);
    this.#entries.set(record.id, entry);
    this.counts[record.status] += 1;
  }

  remove(id: string): void {
    const status = this.record(id)?.status;
    if (status !== undefined) this.counts[status] -= 1;
    this.#entries.delete(id);
  }

  /** It takes text of any size and content, and never throws; `nowMs` is in milliseconds since the epoch. */
  look(presented: string, nowMs: number): KeyLookup {
    const id = idOfKey(presented);
    if (id === undefined) return { refused: "malformed" };
    const entry = this.#entry(id);
    const position = matchDigest(keyDigest(this.#pepper, presented), entry?.digests ?? NO_DIGESTS);
    const notAfterMs = entry?.notAfterMs[position];
    if (entry === undefined || notAfterMs === undefined) return { refused: "unknown" };
    const { status } = entry.record;
    if (status !== "active") return { refused: status };
    if (nowMs >= notAfterMs || nowMs >= entry.expiresAtMs) return { refused: "expired" };
    return { principal: entry.principal };
  }

  byId(id: string): Principal | undefined {
    return this.#entry(id)?.principal;
  }

  inForce(id: string, nowMs: number): Principal | undefined {
    const entry = this.#entry(id);
    return entry?.record.status === "active" && nowMs < entry.expiresAtMs ? entry.principal : undefined;
  }

  mustEnd(id: string): boolean {
    const record = this.#entry(id)?.record;
    return record !== undefined && record.status !== "active" && record.endRunning === true;
  }

  #entry(id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    // Earlier releases made records of the kind `test`, which opened nothing.
    return entry?.record.env === "live" ? entry : undefined;
  }
}

export function indexKeys(set: KeySet, pepper: Pepper | undefined): KeyTable {
  const table = new KeyTable(pepper);
  for (const record of set.keys) table.put(record);
  return table;
}
