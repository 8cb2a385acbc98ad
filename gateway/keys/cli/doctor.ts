import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { lockState } from "../../../deploy/runtime/files/file-lock.ts";
import { errnoOf } from "../../../deploy/runtime/files/private-file.ts";
import { findModel } from "../../catalog.ts";
import { EARLIER, readAudit } from "../audit-log.ts";
import { stateOf } from "../key-admin.ts";
import type { Pepper } from "../key-digest.ts";
import { type KeyFile, unfinishedKeyWrites } from "../key-file.ts";
import { type KeySet, RECORD_FIELDS } from "../key-record.ts";
import { isKeyStoreError } from "../key-store.ts";
import type { KeyVault } from "../key-vault.ts";

/** `error`: keys cannot be used, changed or trusted. `warning`: operators should check the store. */
export type Finding = { readonly level: "ok" | "warning" | "error"; readonly text: string };

const ok = (text: string): Finding => ({ level: "ok", text });
const warning = (text: string): Finding => ({ level: "warning", text });
const error = (text: string): Finding => ({ level: "error", text });

/** Mode bits that let other users write: in the folder, they could replace the key file. */
const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;
/** The least number of different bytes in a pepper: 32 random bytes rarely have fewer than 20 different values. */
const MIN_DIFFERENT_BYTES = 16;

/** Checks a key store for common faults and changes nothing. */
export async function examine(vault: KeyVault, nowMs: number): Promise<readonly Finding[]> {
  const { name, isFile } = vault;
  const folder = isFile ? await examineFolder(dirname(name)) : [];
  const lock = isFile ? await examineLock(name) : [];
  try {
    const found = await vault.read();
    return [
      ...folder,
      ok(`${name} can be used: ${found.set.keys.length} keys, revision ${found.set.revision}`),
      ...found.amiss.map(({ message }) => error(message)),
      ...examinePepper(found.pepper),
      ...lock,
      await examineAudit(vault, found),
      ...examineKeys(found.set, nowMs),
    ];
  } catch (thrown) {
    if (!isKeyStoreError(thrown)) throw thrown;
    return [...folder, error(thrown.message), ...lock];
  }
}

async function examineFolder(folder: string): Promise<Finding[]> {
  try {
    const { mode } = await stat(folder);
    if (process.getuid === undefined || (mode & WRITABLE_BY_OTHERS) === 0 || (mode & STICKY) !== 0) return [];
    return [error(`${folder} can be written by other users; its mode should be 0700`)];
  } catch (thrown) {
    return [error(`${folder} cannot be looked at (${errnoOf(thrown)})`)];
  }
}

function examinePepper(pepper: Pepper | undefined): Finding[] {
  if (pepper === undefined) return [];
  const weak = new Set(pepper.bytes).size < MIN_DIFFERENT_BYTES;
  return [weak ? warning("the pepper is weak: it should be 32 random bytes") : ok(`the pepper ${pepper.id} fits`)];
}

async function examineLock(keyFile: string): Promise<Finding[]> {
  const lock = `${keyFile}.lock`;
  const state = await lockState(lock);
  if (state === "held") return [warning(`${lock} is held; if no process is changing keys, remove that file`)];
  const left = (await unfinishedKeyWrites(keyFile)).map((path) =>
    warning(`${path} was left behind by a change that was killed; the next change removes it`),
  );
  return state === "free" ? left : [warning(`${lock} was left behind; the next change takes it over`), ...left];
}

/** Checks the audit log of keys. */
export async function examineAudit(vault: KeyVault, { set, pepper }: KeyFile): Promise<Finding> {
  const { auditName: file } = vault;
  const text = await vault.readAudit();
  if (text !== undefined) return auditFinding(file, text, set, pepper);
  if (set.auditHead !== undefined) return error(`there is no audit log at ${file}, and there was one`);
  return set.revision === 0 ? ok("no key was made yet") : warning(`there is no audit log at ${file}`);
}

/**
 * Checks that the audit log is unaltered and reaches the revision of the key set: no line was forged, altered or cut off
 * without the pepper.
 */
export function auditFinding(file: string, text: string, set: KeySet, pepper: Pepper | undefined): Finding {
  const { revision, auditHead } = set;
  if (auditHead === undefined && text !== "" && !text.includes('"mac"')) return warning(`${file}: ${EARLIER}`);
  const { entries, brokenAt } = readAudit(text, pepper);
  if (brokenAt !== undefined) return error(`${file} is not as it was written, from line ${brokenAt} on`);
  const last = entries.at(-1);
  if ((last?.revision ?? 0) !== revision || last?.mac !== auditHead) {
    const known = auditHead !== undefined && entries.some(({ mac }) => mac === auditHead);
    const why = known
      ? "a change was broken off, or keys were put back"
      : "lines are missing, or keys were changed by hand";
    return error(
      `${file} ends at revision ${last?.revision ?? 0}, and not as the keys of revision ${revision} say: ${why}`,
    );
  }
  return ok(`${file} is as it was written: ${entries.length} lines`);
}

function examineKeys({ keys }: KeySet, nowMs: number): Finding[] {
  const names = new Set(keys.flatMap((record) => Object.keys(record).filter((name) => !RECORD_FIELDS.has(name))));
  const unknown = [...names].map((name) =>
    warning(
      `keys have the field ${JSON.stringify(name)}, which this release keeps and passes over: a newer one wrote it, or it is misspelt`,
    ),
  );
  const found = keys.flatMap((record) =>
    [
      ...(stateOf(record, nowMs) === "expired" ? ["has expired"] : []),
      ...record.models
        .filter((model) => model !== "*" && findModel(model) === undefined)
        .map((model) => `is for ${model}, which is not in the default catalog`),
    ].map((what) => warning(`the key ${record.id} ${what}`)),
  );
  return [...unknown, ...found];
}
