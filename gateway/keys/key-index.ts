import { WorkTurns } from "../../deploy/runtime/time/work-turns.ts";
import { keyDigest, makePepper, matchDigest, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { type KeyEnv, parseKey } from "./key-format.ts";
import type { KeyRecord, KeySet } from "./key-record.ts";
import { makePrincipal, type Principal } from "./principal.ts";

/** Why a key was refused; operators see it, callers never do. A valid id with a wrong secret is also `unknown`. */
export type KeyRefusal = "malformed" | "unknown" | "disabled" | "revoked" | "expired";

/** The result of a look-up: the principal, or why the key was refused. */
export type KeyLookup = { readonly principal: Principal } | { readonly refused: KeyRefusal };

/** A key set indexed for look-up. */
export type KeyIndex = {
  /**
   * Looks up a presented key at `nowMs`, in milliseconds since the epoch. It takes text of any size and content, and
   * never throws.
   */
  look(presented: string, nowMs: number): KeyLookup;
  /** Returns the principal of the record with this id, whatever its status; undefined if no record has it. */
  byId(id: string): Principal | undefined;
  /** Returns the principal of the record with this id if it is in force at `nowMs`; undefined otherwise. */
  inForce(id: string, nowMs: number): Principal | undefined;
  /** Returns whether running requests of the key have to end, because it was disabled or revoked with `endRunning`. */
  mustEnd(id: string): boolean;
};

type Entry = {
  readonly record: KeyRecord;
  readonly principal: Principal;
  readonly status: KeyRecord["status"];
  readonly mustEnd: boolean;
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
    status: record.status,
    mustEnd: record.status !== "active" && record.endRunning === true,
    expiresAtMs: instantMs(record.expiresAt),
    digests: record.secrets.map((secret) => Buffer.from(secret.hash, "base64url")),
    notAfterMs: record.secrets.map((secret) => instantMs(secret.notAfter)),
  };
}

/** An index whose records can be added and replaced one by one, for a store that reports single changes. */
export class KeyTable implements KeyIndex {
  readonly #env: KeyEnv;
  readonly #pepper: Pepper;
  readonly #entries = new Map<string, Entry>();

  /** Makes an empty table. Keys of another `env` are unknown. `pepper` may be undefined only if no record is added. */
  constructor(pepper: Pepper | undefined, env: KeyEnv) {
    // A digest is computed without any key, too, so that an empty store does not answer faster.
    this.#pepper = pepper ?? makePepper(Buffer.alloc(PEPPER_BYTES));
    this.#env = env;
  }

  /** Adds or replaces the record with its id. */
  put(record: KeyRecord): void {
    if (record.env === this.#env) this.#entries.set(record.id, makeEntry(record, this.#pepper));
  }

  remove(id: string): void {
    this.#entries.delete(id);
  }

  /**
   * Adds a record as `put` does, but reuses the entry of another table for the same record: computing the digests of a
   * key is slow.
   */
  adopt(record: KeyRecord, from: KeyTable): void {
    const entry = from.#entries.get(record.id);
    const isSame = entry?.record === record && from.#pepper.id === this.#pepper.id && from.#env === this.#env;
    if (isSame) this.#entries.set(record.id, entry);
    else this.put(record);
  }

  look(presented: string, nowMs: number): KeyLookup {
    const parsed = parseKey(presented);
    if (parsed === undefined) return { refused: "malformed" };
    const entry = parsed.env === this.#env ? this.#entries.get(parsed.id) : undefined;
    const position = matchDigest(keyDigest(this.#pepper, presented), entry?.digests ?? NO_DIGESTS);
    const notAfterMs = entry?.notAfterMs[position];
    if (entry === undefined || notAfterMs === undefined) return { refused: "unknown" };
    if (entry.status !== "active") return { refused: entry.status };
    if (nowMs >= notAfterMs || nowMs >= entry.expiresAtMs) return { refused: "expired" };
    return { principal: entry.principal };
  }

  byId(id: string): Principal | undefined {
    return this.#entries.get(id)?.principal;
  }

  inForce(id: string, nowMs: number): Principal | undefined {
    const entry = this.#entries.get(id);
    return entry?.status === "active" && nowMs < entry.expiresAtMs ? entry.principal : undefined;
  }

  mustEnd(id: string): boolean {
    return this.#entries.get(id)?.mustEnd ?? false;
  }
}

/** Makes the index of a set. `pepper` may be undefined only if the set is empty. Keys of another `env` are unknown. */
export function indexKeys(set: KeySet, pepper: Pepper | undefined, env: KeyEnv): KeyTable {
  const table = new KeyTable(pepper, env);
  for (const record of set.keys) table.put(record);
  return table;
}

/**
 * Makes the index of a set as `indexKeys` does, over several turns of the event loop. Entries of records that are the
 * same objects as in `before` are reused.
 */
export async function reindexKeys(
  set: KeySet,
  pepper: Pepper | undefined,
  env: KeyEnv,
  before: KeyTable,
): Promise<KeyTable> {
  const table = new KeyTable(pepper, env);
  const turns = new WorkTurns();
  for (const record of set.keys) {
    if (turns.isOver) await turns.next();
    table.adopt(record, before);
  }
  return table;
}
