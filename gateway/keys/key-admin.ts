import { keyDigest, type Pepper } from "./key-digest.ts";
import type { KeySetChange } from "./key-file.ts";
import { type GeneratedKey, generateKey, generateKeyId, type KeyEnv, type RandomBytes } from "./key-format.ts";
import {
  type KeyLimits,
  type KeyPriority,
  type KeyQuota,
  type KeyRecord,
  type KeySecret,
  type KeySet,
  RECORD_FIELDS,
} from "./key-record.ts";

/*
 * The life of a key: created, limited, rotated, disabled, enabled, revoked. Every function takes a set and returns its
 * successor; time and random bytes are parameters. No function removes a record.
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

export type KeyRequest = {
  readonly name: string;
  /** Keys of one owner are one tenant; null if the key has no owner. */
  readonly owner: string | null;
  readonly env: KeyEnv;
  /** Catalog ids, or "all". */
  readonly models: readonly string[] | "all";
  readonly allowIps?: readonly string[] | "any";
  readonly limits: KeyLimits;
  readonly quota: KeyQuota;
  readonly priority: KeyPriority;
  /** Share among waiting keys of the same class, from 1 to 1000. */
  readonly weight: number;
  /** Milliseconds since the epoch; null for no expiry. */
  readonly expiresAtMs: number | null;
};

export type Minting = {
  readonly pepper: Pepper;
  readonly nowMs: number;
  readonly random: RandomBytes;
};

/** A new or changed record with the text of its key, which is shown once and never stored. */
export type MintedKey = { readonly record: KeyRecord; readonly key: string };

const SALT_BYTES = 16;

function instant(ms: number): string {
  return new Date(ms).toISOString();
}

function replaceKey(set: KeySet, record: KeyRecord): KeySet {
  return { ...set, keys: set.keys.map((other) => (other.id === record.id ? record : other)) };
}

function changed(record: KeyRecord, changes: Partial<KeyRecord>, nowMs: number): KeyRecord {
  return { ...record, ...changes, updated: instant(nowMs), revision: record.revision + 1 };
}

function makeSecret(generated: GeneratedKey, minting: Minting): KeySecret {
  return {
    hash: keyDigest(minting.pepper, generated.key).toString("base64url"),
    pepperId: minting.pepper.id,
    created: instant(minting.nowMs),
    notAfter: null,
    last4: generated.key.slice(-4),
  };
}

function freeId(set: KeySet, random: RandomBytes): string {
  for (;;) {
    const id = generateKeyId(random);
    if (!set.keys.some((record) => record.id === id)) return id;
  }
}

export function findKey(set: KeySet, id: string): KeyRecord {
  const record = set.keys.find((candidate) => candidate.id === id);
  if (record === undefined) throw new KeyAdminError("not_found", "no key has this id");
  return record;
}

/** Adds an active key. It shares cached prefixes with other keys of the same owner. */
export function createKey(set: KeySet, request: KeyRequest, minting: Minting): KeySetChange<MintedKey> {
  const { nowMs, random } = minting;
  const generated = generateKey(request.env, freeId(set, random), random);
  const sibling = request.owner === null ? undefined : set.keys.findLast(({ owner }) => owner === request.owner);
  const { allowIps = "any" } = request;
  const record: KeyRecord = {
    v: 1,
    id: generated.id,
    name: request.name,
    owner: request.owner,
    env: request.env,
    status: "active",
    secrets: [makeSecret(generated, minting)],
    models: modelList(request.models),
    ...(allowIps === "any" ? {} : { allowIps: [...allowIps] }),
    priority: request.priority,
    weight: request.weight,
    limits: request.limits,
    quota: request.quota,
    cacheSalt: sibling?.cacheSalt ?? random(SALT_BYTES).toString("base64url"),
    created: instant(nowMs),
    expiresAt: request.expiresAtMs === null ? null : instant(request.expiresAtMs),
    updated: instant(nowMs),
    revision: 1,
  };
  return { set: { ...set, keys: [...set.keys, record] }, value: { record, key: generated.key } };
}

/**
 * Gives the key a new secret. The old secret works for another `overlapMs`; 0 ends it at once. Throws KeyAdminError
 * `conflict` for a revoked or expired key, and while the old secret of an earlier rotation still works, unless
 * `overlapMs` is 0, which ends all older secrets.
 */
export function rotateKey(set: KeySet, id: string, overlapMs: number, minting: Minting): KeySetChange<MintedKey> {
  const { nowMs, random } = minting;
  const record = findKey(set, id);
  const state = stateOf(record, nowMs);
  if (state === "revoked" || state === "expired") throw new KeyAdminError("conflict", `the key is ${state}`);
  const working = record.secrets.filter(({ notAfter }) => notAfter === null || nowMs < Date.parse(notAfter));
  if (overlapMs > 0 && working.length > 1) {
    const end = working.find(({ notAfter }) => notAfter !== null)?.notAfter;
    throw new KeyAdminError("conflict", `an earlier secret of the key works until ${end}; an overlap of 0 ends it now`);
  }
  const generated = generateKey(record.env, id, random);
  const old = overlapMs > 0 ? working.map((secret) => ({ ...secret, notAfter: instant(nowMs + overlapMs) })) : [];
  const next = changed(record, { secrets: [...old, makeSecret(generated, minting)] }, nowMs);
  return { set: replaceKey(set, next), value: { record: next, key: generated.key } };
}

function withStatus(
  set: KeySet,
  id: string,
  status: KeyRecord["status"],
  nowMs: number,
  endRunning = false,
): KeySetChange<KeyRecord> {
  const record = findKey(set, id);
  if (record.status === status && (record.endRunning || !endRunning)) return { set, value: record };
  if (record.status === "revoked" && status !== "revoked")
    throw new KeyAdminError("conflict", "the key is revoked, which cannot be undone");
  const next = changed(record, { status, endRunning: endRunning || undefined }, nowMs);
  return { set: replaceKey(set, next), value: next };
}

export function revokeKey(set: KeySet, id: string, nowMs: number, endRunning = false): KeySetChange<KeyRecord> {
  return withStatus(set, id, "revoked", nowMs, endRunning);
}

export function disableKey(set: KeySet, id: string, nowMs: number, endRunning = false): KeySetChange<KeyRecord> {
  return withStatus(set, id, "disabled", nowMs, endRunning);
}

export function enableKey(set: KeySet, id: string, nowMs: number): KeySetChange<KeyRecord> {
  return withStatus(set, id, "active", nowMs);
}

export function setModels(
  set: KeySet,
  id: string,
  models: readonly string[] | "all",
  nowMs: number,
): KeySetChange<KeyRecord> {
  return changeFields(set, id, nowMs, () => ({ models: modelList(models) }));
}

export function setAllowIps(
  set: KeySet,
  id: string,
  networks: readonly string[] | "any",
  nowMs: number,
): KeySetChange<KeyRecord> {
  return changeFields(set, id, nowMs, () => ({ allowIps: networks === "any" ? undefined : [...networks] }));
}

export function changeFields(
  set: KeySet,
  id: string,
  nowMs: number,
  fields: (record: KeyRecord) => Partial<KeyRecord>,
): KeySetChange<KeyRecord> {
  const record = findKey(set, id);
  if (record.status === "revoked") throw new KeyAdminError("conflict", "the key is revoked, which cannot be undone");
  const next = changed(record, fields(record), nowMs);
  return { set: replaceKey(set, next), value: next };
}

function modelList(models: readonly string[] | "all"): string[] {
  return models === "all" ? ["*"] : [...models];
}

export type KeyState = KeyRecord["status"] | "expired";

/**
 * Returns the state of the key at `nowMs`, in milliseconds since the epoch: its status, or `expired` if only the status
 * would admit it.
 */
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

/**
 * Makes the summary of a record at `nowMs`, in milliseconds since the epoch. Fields that this release does not define
 * are omitted: one of them may be a secret.
 */
export function summarize(record: KeyRecord, nowMs: number): KeySummary {
  const known = Object.entries(record).filter(([name]) => RECORD_FIELDS.has(name));
  const { v: _v, status: _status, cacheSalt: _salt, secrets, ...rest } = Object.fromEntries(known) as KeyRecord;
  return {
    ...rest,
    state: stateOf(record, nowMs),
    secrets: secrets.map(({ last4, created, notAfter }) => ({ last4, created, notAfter })),
  };
}

export function listKeys(set: KeySet, nowMs: number): readonly KeySummary[] {
  return set.keys.map((record) => summarize(record, nowMs));
}
