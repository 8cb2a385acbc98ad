import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { type AuditAddition, appendAudit, auditFileOf, readAudit } from "./audit-log.ts";
import { keyChanges } from "./key-change.ts";
import { makePepper, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { EMPTY_KEY_SET, type KeySet, keySetSchema } from "./key-record.ts";
import { KeyStoreError } from "./key-store-error.ts";
import { assertNotOlder, readSeenRevision } from "./seen-revision.ts";

/** What stands on disk: the key file and, beside it, the pepper of its digests. */
export type KeyFile = {
  /** The keys. */
  readonly set: KeySet;
  /** The pepper; undefined only while the set is empty. */
  readonly pepper: Pepper | undefined;
};

/**
 * Returns the path of the pepper, which lies in the folder of the key file: 32 random bytes, mode 0600. Whoever moves
 * keys moves both.
 */
export function pepperFileOf(keyFile: string): string {
  return join(dirname(keyFile), "pepper");
}

/** Parses the bytes of a key file. Throws KeyStoreError, whose message names `path` and the field at fault. */
export function parseKeySet(path: string, bytes: Buffer): KeySet {
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString("utf8"));
  } catch {
    // The parser's own message quotes the text.
    throw new KeyStoreError("not_json", `${path} is not valid JSON`);
  }
  const checked = keySetSchema.safeParse(json);
  if (checked.success) return checked.data;
  const issue = checked.error.issues[0];
  const where = issue?.path.join(".") || "the top level";
  const unknown = issue?.code === "unrecognized_keys" ? `: unknown field ${issue.keys.join(", ")}` : "";
  throw new KeyStoreError("not_valid", `${path} is not a valid key file, at ${where}${unknown}`);
}

/** Reads a pepper; undefined when there is none. Throws what `isKeyStoreError` knows when it cannot be used. */
export async function readPepper(path: string): Promise<Pepper | undefined> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) return undefined;
  if (bytes.length !== PEPPER_BYTES)
    throw new KeyStoreError("pepper_not_valid", `${path} should hold ${PEPPER_BYTES} bytes`);
  return makePepper(bytes);
}

function assertPepperFits(keyFile: string, set: KeySet, pepper: Pepper | undefined): void {
  const path = pepperFileOf(keyFile);
  if (set.keys.length === 0) return;
  if (pepper === undefined)
    throw new KeyStoreError(
      "pepper_missing",
      `${path} is missing; the keys of ${keyFile} cannot be checked without it`,
    );
  if (set.keys.some((record) => record.secrets.some((secret) => secret.pepperId !== pepper.id)))
    throw new KeyStoreError("pepper_mismatch", `${path} is not the pepper that the keys of ${keyFile} were made with`);
}

/** Reads the key file; undefined when there is none. Throws what `isKeyStoreError` knows when it cannot be used. */
export async function readKeyFile(path: string): Promise<KeyFile | undefined> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) return undefined;
  const set = parseKeySet(path, bytes);
  const pepper = await readPepper(pepperFileOf(path));
  assertPepperFits(path, set, pepper);
  return { set, pepper };
}

/**
 * What a change makes of a key set: `set` is the set that follows, the same object where there is nothing to write, and
 * `value` what the change returns to its caller.
 */
export type KeySetChange<T> = { readonly set: KeySet; readonly value: T };

/** Makes the change of a key set that is asked for. It throws where that cannot be made; nothing is changed then. */
export type KeySetChanger<T> = (set: KeySet, pepper: Pepper) => KeySetChange<T>;

/** Makes a pepper and writes it to the file `path`, of mode 0600. */
export async function makePepperFile(path: string): Promise<Pepper> {
  const bytes = randomBytes(PEPPER_BYTES);
  await writePrivateFile(path, bytes);
  return makePepper(bytes);
}

async function changeLocked<T>(path: string, create: boolean, change: KeySetChanger<T>): Promise<T> {
  const file = await readKeyFile(path);
  if (file === undefined && !create) throw new KeyStoreError("missing", `there is no key file at ${path}`);
  const seen = await readSeenRevision(path);
  // A change would make an old file the newest. Without any file, what comes next begins above what was used.
  if (file) assertNotOlder(path, file.set.revision, seen);
  const before = file?.set ?? EMPTY_KEY_SET;
  const pepper = file?.pepper ?? (await readPepper(pepperFileOf(path))) ?? (await makePepperFile(pepperFileOf(path)));
  const { set, value } = change(before, pepper);
  if (set !== before) {
    const revision = Math.max(before.revision, seen) + 1;
    await writeSet(path, set, { changes: keyChanges(before, set), revision, head: before.auditHead, pepper });
  }
  return value;
}

/** Writes a key set under a new revision, after the lines of the audit log that say so. */
async function writeSet(path: string, set: KeySet, addition: Omit<AuditAddition, "wallMs">): Promise<void> {
  // First, and not at all where that fails: no key changes without a trace.
  const auditHead = await appendAudit(auditFileOf(path), { ...addition, wallMs: systemClock.wallMs() });
  const { keys, ...rest } = set;
  const { revision } = addition;
  const next: KeySet = { ...rest, revision, ...(auditHead !== undefined && { auditHead }), keys };
  await writePrivateFile(path, `${JSON.stringify(next, null, 2)}\n`);
}

/**
 * Puts the keys of the file `from`, which may be the key file `path` itself, in the place of those of `path`, as a new
 * revision that running gateways take over although the keys are old. The audit log, which goes on as it is, says so.
 * Resolves to the set that was written. Throws what `isKeyStoreError` knows, with the fault `locked` when `signal`
 * aborts while another process holds the lock.
 */
export async function restoreKeyFile(path: string, from: string, signal: AbortSignal): Promise<KeySet> {
  return await withFileLock(
    `${path}.lock`,
    async () => {
      const bytes = await readPrivateFile(from);
      if (bytes === undefined) throw new KeyStoreError("missing", `there is no file ${from}`);
      const set = parseKeySet(from, bytes);
      const pepper = await readPepper(pepperFileOf(path));
      assertPepperFits(path, set, pepper);
      if (pepper === undefined) throw new KeyStoreError("empty", `${from} holds no keys`);
      const now = await readPrivateFile(path).then((found) => (found ? parseKeySet(path, found) : EMPTY_KEY_SET));
      const audit = readAudit((await readPrivateFile(auditFileOf(path)))?.toString("utf8") ?? "", pepper);
      const last = audit.brokenAt === undefined ? audit.entries.at(-1) : undefined;
      const newest = Math.max(set.revision, now.revision, last?.revision ?? 0, await readSeenRevision(path));
      const changes = [{ action: "restore", keyId: "*", fields: [] }, ...keyChanges(now, set)];
      const addition = { changes, revision: newest + 1, head: last?.mac ?? now.auditHead, pepper };
      await writeSet(path, set, addition);
      return { ...set, revision: addition.revision };
    },
    signal,
  );
}

/**
 * Reads, changes and replaces the key file while holding its lock, `<path>.lock`, and says so in its audit log. With
 * `create` a missing folder, file and pepper are made. Throws what `isKeyStoreError` knows, with the fault `locked`
 * when `signal` aborts while another process holds the lock, and whatever `change` throws; nothing is written then.
 */
export async function updateKeyFile<T>(
  path: string,
  create: boolean,
  change: KeySetChanger<T>,
  signal: AbortSignal,
): Promise<T> {
  if (create) {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
      throw new KeyStoreError("unwritable", `${dirname(path)} cannot be made`, { cause });
    });
  } else if ((await readPrivateFile(path)) === undefined) {
    throw new KeyStoreError("missing", `there is no key file at ${path}`);
  }
  return await withFileLock(`${path}.lock`, () => changeLocked(path, create, change), signal);
}
