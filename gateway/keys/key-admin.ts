import { randomBytes } from "node:crypto";
import { keyDigest, type Pepper, pseudonym } from "./key-digest.ts";
import type { KeySetChange } from "./key-file.ts";
import { generateKey, generateKeyId, isKeyId } from "./key-format.ts";
import { type KeyRecord, type KeySecret, type KeySet, RECORD_FIELDS } from "./key-record.ts";

/*
 * The life of a key: created, limited, rotated, disabled, enabled, revoked. Every function takes a set and returns its
 * successor; `nowMs` is in milliseconds since the epoch. No function removes a record.
 */

export class KeyAdminError extends Error {
  /** `not_found`: no key has that id. `conflict`: the state of the key forbids the change. */
  readonly reason: "not_found" | "conflict";

  constructor(reason: "not_found" | "conflict", message: string) {
    super(message);
    this.name = "KeyAdminError";
    this.reason = reason;
  }
}

/** A key of all models without limits. */
const DEFAULTS = {
  ...{ owner: null, models: ["*"], priority: "DEFAULT", weight: 1, limits: {}, quota: {}, expiresAt: null },
} satisfies Partial<KeyRecord>;

export type KeyRequest = Pick<KeyRecord, "name"> &
  Partial<Pick<KeyRecord, keyof typeof DEFAULTS | "allowIps" | "loadTests">>;

/** A new or changed record with the text of its key, which is shown once and never stored. */
export type MintedKey = { readonly record: KeyRecord; readonly key: string };

const SALT_BYTES = 16;

function instant(ms: number): string {
  return new Date(ms).toISOString();
}

function makeSecret(pepper: Pepper, key: string, nowMs: number): KeySecret {
  const hash = keyDigest(pepper, key).toString("base64url");
  return { hash, pepperId: pepper.id, created: instant(nowMs), notAfter: null, last4: key.slice(-4) };
}

function replaced(set: KeySet, record: KeyRecord, changes: Partial<KeyRecord>, nowMs: number): KeySetChange<KeyRecord> {
  const value = { ...record, ...changes, updated: instant(nowMs), revision: record.revision + 1 };
  return { set: { ...set, keys: set.keys.map((other) => (other.id === record.id ? value : other)) }, value };
}

/** Throws KeyAdminError `not_found`. Its message repeats no text that may be a secret. */
export function findKey(set: KeySet, id: string): KeyRecord {
  const record = set.keys.find((candidate) => candidate.id === id);
  if (record === undefined)
    throw new KeyAdminError("not_found", `no key has ${isKeyId(id) ? `the id ${id}` : "this id"}`);
  return record;
}

/** Adds an active key. It shares cached prefixes with other keys of the same owner. */
export function createKey(set: KeySet, request: KeyRequest, pepper: Pepper, nowMs: number): KeySetChange<MintedKey> {
  const chosen = { ...DEFAULTS, ...request };
  const { owner } = chosen;
  const id = generateKeyId();
  const key = generateKey(id);
  const sibling = owner === null ? undefined : set.keys.findLast((other) => other.owner === owner);
  // The set may lack other keys of the owner.
  const salt =
    owner === null ? randomBytes(SALT_BYTES) : pseudonym(pepper, "owner-salt", [owner]).subarray(0, SALT_BYTES);
  const record: KeyRecord = {
    v: 1,
    id,
    ...chosen,
    env: "live",
    status: "active",
    secrets: [makeSecret(pepper, key, nowMs)],
    cacheSalt: sibling?.cacheSalt ?? salt.toString("base64url"),
    created: instant(nowMs),
    updated: instant(nowMs),
    revision: 1,
  };
  return { set: { ...set, keys: [...set.keys, record] }, value: { record, key } };
}

/**
 * Gives the key a new secret. The old secret works for another `overlapMs`; 0 ends it at once. Throws KeyAdminError
 * `conflict` for a revoked or expired key, and while the old secret of an earlier rotation still works, unless
 * `overlapMs` is 0, which ends all older secrets.
 */
export function rotateKey(
  set: KeySet,
  id: string,
  overlapMs: number,
  pepper: Pepper,
  nowMs: number,
): KeySetChange<MintedKey> {
  const record = findKey(set, id);
  const state = stateOf(record, nowMs);
  if (state === "revoked" || state === "expired") throw new KeyAdminError("conflict", `the key is ${state}`);
  const working = record.secrets.filter(({ notAfter }) => notAfter === null || nowMs < Date.parse(notAfter));
  if (overlapMs > 0 && working.length > 1) {
    const end = working.find(({ notAfter }) => notAfter !== null)?.notAfter;
    throw new KeyAdminError("conflict", `an earlier secret of the key works until ${end}; an overlap of 0 ends it now`);
  }
  const key = generateKey(id);
  const old = overlapMs > 0 ? working.map((secret) => ({ ...secret, notAfter: instant(nowMs + overlapMs) })) : [];
  const next = replaced(set, record, { secrets: [...old, makeSecret(pepper, key, nowMs)] }, nowMs);
  return { set: next.set, value: { record: next.value, key } };
}

/** Disables, enables or revokes keys, all or none; with `endRunning` their running answers end, too. */
export function setStatus(
  set: KeySet,
  ids: readonly string[],
  status: KeyRecord["status"],
  nowMs: number,
  endRunning = false,
): KeySetChange<readonly KeyRecord[]> {
  let next = set;
  const value = ids.map((id) => {
    const record = findKey(next, id);
    if (record.status === status && (record.endRunning || !endRunning)) return record;
    if (status !== "revoked") assertNotRevoked(record);
    const made = replaced(next, record, { status, endRunning: endRunning || undefined }, nowMs);
    next = made.set;
    return made.value;
  });
  return { set: next, value };
}

export function changeFields(
  set: KeySet,
  id: string,
  nowMs: number,
  fields: (record: KeyRecord) => Partial<KeyRecord>,
): KeySetChange<KeyRecord> {
  const record = findKey(set, id);
  assertNotRevoked(record);
  return replaced(set, record, fields(record), nowMs);
}

function assertNotRevoked({ status }: KeyRecord): void {
  if (status === "revoked") throw new KeyAdminError("conflict", "the key is revoked, which cannot be undone");
}

export type KeyState = KeyRecord["status"] | "expired";

/** Returns the status of the key at `nowMs`, or `expired` if only the status would admit it. */
export function stateOf(record: KeyRecord, nowMs: number): KeyState {
  const past = record.expiresAt !== null && nowMs >= Date.parse(record.expiresAt);
  return record.status === "active" && past ? "expired" : record.status;
}

/** A record without the service's own fields: no digest of a secret, and no salt. */
export type KeySummary = Omit<KeyRecord, "v" | "status" | "secrets" | "cacheSalt"> & {
  readonly state: KeyState;
  /** The last characters of each secret, newest secret last. */
  readonly secrets: readonly Pick<KeySecret, "last4" | "created" | "notAfter">[];
};

/** Fields that this release does not define are omitted: one of them may be a secret. */
export function summarize(record: KeyRecord, nowMs: number): KeySummary {
  const known = Object.entries(record).filter(([name]) => RECORD_FIELDS.has(name));
  const { v: _v, status: _status, cacheSalt: _salt, secrets, ...rest } = Object.fromEntries(known) as KeyRecord;
  return {
    ...rest,
    state: stateOf(record, nowMs),
    secrets: secrets.map(({ last4, created, notAfter }) => ({ last4, created, notAfter })),
  };
}
