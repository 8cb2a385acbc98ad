import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisState } from "../../state/redis-state.ts";
import type { RedisSettings } from "../../state/state-settings.ts";
import { auditLines } from "../audit-log.ts";
import { keyChanges } from "../key-change.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeyFile, type KeySetChanger, makePepperFile, readPepper } from "../key-file.ts";
import type { KeyRecord, KeySet } from "../key-record.ts";
import { KeyStoreError } from "../key-store-error.ts";
import type { KeyVault } from "../key-vault.ts";
import { StoredKeys } from "./stored-keys.ts";

/** How often a change is tried again, or keys are read anew, as somebody else changed keys meanwhile. */
const TRIES = 5;
/** The time for which a command waits for an answer, at least, in milliseconds: nobody is held up by it. */
const PATIENCE_MS = 5_000;

/** Opens the keys in the store that gateways share. Rejects with `ConfigError` where a file of the settings cannot be used. */
export async function openRedisKeyVault(settings: RedisSettings, pepperFile: string): Promise<KeyVault> {
  const patient = { ...settings, commandTimeoutMs: Math.max(settings.commandTimeoutMs, PATIENCE_MS) };
  const state = new RedisState({ settings: patient, clock: systemClock, onReload: () => {} });
  await state.connect();
  const stored = new StoredKeys(state);
  const name = `the store of keys ${settings.keyPrefix}`;
  return {
    ...{ name, isFile: false, auditName: `the audit log of ${name}`, pepperFile },
    async read() {
      const found = await readAll(stored, pepperFile);
      if (found.set.revision === 0) throw new KeyStoreError("missing", "there are no keys in the store");
      return found;
    },
    update: (create, change) => update(stored, pepperFile, create, change),
    async readAudit() {
      const text = await stored.audit();
      return text === undefined ? undefined : Buffer.from(text);
    },
    close: () => state.close(),
  };
}

/** Reads all records as they stood at one moment. */
async function readAll(stored: StoredKeys, pepperFile: string): Promise<KeyFile> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const head = await stored.head();
    const keys: KeyRecord[] = [];
    // A page may bring a record again.
    const seen = new Set<string>();
    for await (const record of stored.all()) if (!seen.has(record.id)) keys.push(seen.add(record.id) && record);
    if ((await stored.head()).revision !== head.revision) continue;
    keys.sort((one, other) => one.created.localeCompare(other.created) || one.id.localeCompare(other.id));
    const pepper = await readPepper(pepperFile);
    if (head.pepperId !== undefined && pepper?.id !== head.pepperId) throw wrongPepper(pepperFile, pepper);
    const { revision, auditHead } = head;
    return { set: { v: 1, revision, ...(auditHead !== undefined && { auditHead }), keys }, pepper };
  }
  throw changedMeanwhile();
}

function wrongPepper(pepperFile: string, pepper: Pepper | undefined): KeyStoreError {
  return pepper === undefined
    ? new KeyStoreError("pepper_missing", `${pepperFile} is missing; copy the one that the stored keys were made with`)
    : new KeyStoreError("pepper_mismatch", `${pepperFile} is not the pepper that the stored keys were made with`);
}

function changedMeanwhile(): KeyStoreError {
  return new KeyStoreError("conflict", "others change keys all the time; try again");
}

async function update<T>(
  stored: StoredKeys,
  pepperFile: string,
  create: boolean,
  change: KeySetChanger<T>,
): Promise<T> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const { set: before, pepper: found } = await readAll(stored, pepperFile);
    if (before.revision === 0 && !create) throw new KeyStoreError("missing", "there are no keys in the store");
    const pepper = found ?? (await makePepperFile(pepperFile));
    const { set, value } = change(before, pepper);
    if (set === before || (await write(stored, before, set, pepper))) return value;
  }
  throw changedMeanwhile();
}

/**
 * Writes what has changed, with its lines of the audit log. Resolves to whether it was written; otherwise somebody else
 * changed keys first. Many records take several steps, each of which is whole.
 */
async function write(stored: StoredKeys, before: KeySet, set: KeySet, pepper: Pepper): Promise<boolean> {
  const changes = keyChanges(before, set);
  const changed = new Map(set.keys.map((record) => [record.id, record]));
  let { revision, auditHead } = before;
  for (let at = 0; at < changes.length; at += StoredKeys.BATCH) {
    const batch = changes.slice(at, at + StoredKeys.BATCH);
    const addition = { changes: batch, revision: revision + 1, head: auditHead, pepper };
    const { lines, head } = auditLines({ ...addition, wallMs: systemClock.wallMs() }, auditHead);
    const records = batch.flatMap(({ keyId }) => changed.get(keyId) ?? []);
    if (!(await stored.change({ before: revision, auditHead: head, pepperId: pepper.id, records, lines }))) {
      if (at === 0) return false;
      throw changedMeanwhile();
    }
    revision += 1;
    auditHead = head;
  }
  return true;
}
