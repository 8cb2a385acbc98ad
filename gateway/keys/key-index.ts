import { WorkTurns } from "../../deploy/runtime/time/work-turns.ts";
import { keyDigest, makePepper, matchDigest, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { type KeyEnv, parseKey } from "./key-format.ts";
import type { KeyRecord, KeySet } from "./key-record.ts";
import { makePrincipal, type Principal } from "./principal.ts";

/**
 * The reason why a key was refused, which operators see and the caller never does. The right id with a wrong secret is
 * `unknown`, too.
 */
export type KeyRefusal = "malformed" | "unknown" | "disabled" | "revoked" | "expired";

/** What a look-up of a key found: whose it is, or why it was refused. */
export type KeyLookup = { readonly principal: Principal } | { readonly refused: KeyRefusal };

/** A key set made ready for look-up. */
export type KeyIndex = {
  /**
   * Looks a presented key up at `nowMs`, in milliseconds since the epoch. It takes text of any size and content, and
   * never throws.
   */
  look(presented: string, nowMs: number): KeyLookup;
  /** Returns whose record has this id, whatever its status; undefined where none has. */
  byId(id: string): Principal | undefined;
  /** Returns whose record has this id, where it is in force at `nowMs`; undefined otherwise. */
  inForce(id: string, nowMs: number): Principal | undefined;
  /** Returns whether what runs for the key with this id has to end, as it was disabled or revoked with that wish. */
  mustEnd(id: string): boolean;
};

type Entry = {
  /** The record that the entry was made of. */
  readonly record: KeyRecord;
  readonly principal: Principal;
  readonly status: KeyRecord["status"];
  readonly mustEnd: boolean;
  readonly expiresAtMs: number;
  readonly digests: readonly Buffer[];
  /** The moments at which the digests stop working, in milliseconds since the epoch, in the order of the digests. */
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

/** An index whose records can be added and replaced one by one, for a store that tells each change of its own. */
export class KeyTable implements KeyIndex {
  readonly #env: KeyEnv;
  readonly #pepper: Pepper;
  readonly #entries = new Map<string, Entry>();

  /** Makes an empty table. Keys of another `env` than this are unknown. Default of `pepper`: there will be no records. */
  constructor(pepper: Pepper | undefined, env: KeyEnv) {
    // Without any key the digest is worked out all the same, so that an empty store answers no faster.
    this.#pepper = pepper ?? makePepper(Buffer.alloc(PEPPER_BYTES));
    this.#env = env;
  }

  /** Adds a record, or puts it in the place of the one with its id. */
  put(record: KeyRecord): void {
    if (record.env === this.#env) this.#entries.set(record.id, makeEntry(record, this.#pepper));
  }

  /** Takes the record with this id out. */
  remove(id: string): void {
    this.#entries.delete(id);
  }

  /** Does as `put`, with what another table has made of the same record, where it has: the digests of a key are dear. */
  adopt(record: KeyRecord, from: KeyTable): void {
    const entry = from.#entries.get(record.id);
    const isSame = entry?.record === record && from.#pepper.id === this.#pepper.id && from.#env === this.#env;
    if (isSame) this.#entries.set(record.id, entry);
    else this.put(record);
  }

  /** Looks a presented key up at `nowMs`, in milliseconds since the epoch. */
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

  /** Returns whose record has this id, whatever its status; undefined where none has. */
  byId(id: string): Principal | undefined {
    return this.#entries.get(id)?.principal;
  }

  /** Returns whose record has this id, where it is in force at `nowMs`; undefined otherwise. */
  inForce(id: string, nowMs: number): Principal | undefined {
    const entry = this.#entries.get(id);
    return entry?.status === "active" && nowMs < entry.expiresAtMs ? entry.principal : undefined;
  }

  /** Returns whether what runs for the key with this id has to end. */
  mustEnd(id: string): boolean {
    return this.#entries.get(id)?.mustEnd ?? false;
  }
}

/**
 * Makes the index of a set. `pepper` may be missing only where the set is empty. Keys of another `env` than the given
 * one are unknown.
 */
export function indexKeys(set: KeySet, pepper: Pepper | undefined, env: KeyEnv): KeyTable {
  const table = new KeyTable(pepper, env);
  for (const record of set.keys) table.put(record);
  return table;
}

/**
 * Makes the index of a set as `indexKeys` does, in turns of the event loop. Records that are the same objects as in
 * `before` are not looked at again.
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
