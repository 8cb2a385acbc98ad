import { hash, randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { core } from "zod";
import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import type { LookProgress } from "../../deploy/runtime/files/followed-file.ts";
import {
  openPrivateFile,
  type PrivateFile,
  readPrivateFile,
  unfinishedWrites,
  writePrivateFile,
} from "../../deploy/runtime/files/private-file.ts";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { WorkTurns } from "../../deploy/runtime/time/work-turns.ts";
import { type AuditAddition, appendAudit, auditFileOf, readAudit } from "./audit-log.ts";
import { keyChanges } from "./key-change.ts";
import { makePepper, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { EMPTY_KEY_SET, type KeyRecord, type KeySet, keyRecordSchema, keySetSchema } from "./key-record.ts";
import { KeyStoreError } from "./key-store-error.ts";
import { assertNotOlder, readSeenRevision } from "./seen-revision.ts";

/** The key file and, beside it, the pepper of its digests. */
export type KeyFile = {
  readonly set: KeySet;
  /** Undefined only while the set is empty. */
  readonly pepper: Pepper | undefined;
};

/**
 * Returns the path of the pepper, in the folder of the key file: 32 random bytes, mode 0600. Keys are only usable
 * together with their pepper.
 */
export function pepperFileOf(keyFile: string): string {
  return join(dirname(keyFile), "pepper");
}

/** Parses the bytes of a key file. Throws KeyStoreError, whose message names `path` and the field at fault. */
export function parseKeySet(path: string, bytes: Buffer): KeySet {
  const checked = keySetSchema.safeParse(parseJson(path, bytes));
  if (checked.success) return checked.data;
  throw notValid(path, checked.error.issues[0], []);
}

function parseJson(path: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    // The message of the parser quotes the text.
    throw new KeyStoreError("not_json", `${path} is not valid JSON`);
  }
}

function notValid(path: string, issue: core.$ZodIssue | undefined, at: readonly PropertyKey[]): KeyStoreError {
  const where = [...at, ...(issue?.path ?? [])].join(".") || "the top level";
  const unknown = issue?.code === "unrecognized_keys" ? `: unknown field ${issue.keys.join(", ")}` : "";
  const newer =
    issue?.path.at(-1) === "v" ? ": it is of another release, which wrote what this one must not pass over" : "";
  return new KeyStoreError("not_valid", `${path} is not a valid key file, at ${where}${unknown}${newer}`);
}

/** Bytes of a key file that are read at a time; also the largest record that can be cut. */
const ROOM_BYTES = 256 * 1024;
const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Reads the bytes of a key file, as the `read` of a private file does. */
export type ReadBytes = PrivateFile["read"];

/**
 * Finds the records in the bytes of a key file that our commands wrote: one list `keys` of objects, separated by
 * commas. The JSON within a record is not checked here; parsing it does. Yields the start and end of each record in
 * `room`, which holds the bytes until the next record is requested. Returns the bytes before and after the list,
 * unread; undefined for every other form.
 */
async function* cutRecords(read: ReadBytes, room: Buffer): AsyncGenerator<readonly number[], Buffer | undefined> {
  let position = 0;
  let filled = 0;
  /**
   * Moves the bytes from here on to the start of `room` and reads more. Resolves to false at the end of the file, or if
   * `room` is full.
   */
  const readOn = async (from: number) => {
    room.copyWithin(0, from, filled);
    filled -= from;
    const bytes = filled < room.length ? await read(room.subarray(filled), position) : 0;
    position += bytes;
    filled += bytes;
    return bytes > 0;
  };
  while (await readOn(0));
  const begun = room.subarray(0, filled);
  const name = begun.indexOf('"keys"');
  const list = begun.indexOf("[", name);
  if (name < 0 || list < 0 || !/^\s*:\s*$/.test(begun.toString("latin1", name + 6, list))) return undefined;
  const head = Buffer.from(begun.subarray(0, list + 1));
  let at = list + 1;
  let record: number | undefined;
  let depth = 0;
  let inText = false;
  let wantsComma = false;
  let isFirst = true;
  for (;;) {
    const bounds: number[] = [];
    for (; at < filled; at += 1) {
      const byte = room[at] ?? 0;
      if (inText) {
        if (byte === BACKSLASH) at += 1;
        else if (byte === QUOTE) inText = false;
      } else if (record !== undefined) {
        if (byte === QUOTE) inText = true;
        else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth += 1;
        else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1;
        if (depth > 0) continue;
        bounds.push(record, at + 1);
        record = undefined;
        wantsComma = true;
      } else if (byte === OPEN_OBJECT && !wantsComma) {
        record = at;
        depth = 1;
        isFirst = false;
      } else if (byte === COMMA && wantsComma) wantsComma = false;
      else if (byte === CLOSE_ARRAY && (wantsComma || isFirst)) break;
      else if (byte > 0x20) return undefined;
    }
    if (bounds.length > 0) yield bounds;
    let from = record ?? Math.min(at, filled);
    if (at >= filled) {
      at -= from;
      if (record !== undefined) record = 0;
      if (!(await readOn(from))) return undefined;
      continue;
    }
    for (; await readOn(from); from = 0);
    return filled < room.length ? Buffer.concat([head, room.subarray(0, filled)]) : undefined;
  }
}

/**
 * Reads key files over several turns of the event loop, so that 100,000 keys do not block requests, and parses only
 * records that changed since the last read. Unchanged records are not allocated again, and the file is never in memory
 * as a whole: either would cause garbage collections longer than a turn.
 */
export class KeySetReader {
  /** Records by the digests of their texts: those of the newest file, and of some earlier files. */
  #known = new Map<string, KeyRecord>();
  #keys: readonly KeyRecord[] = [];
  /** Number of records that were parsed and checked. */
  parsed = 0;
  /** Number of event loop turns that reads have taken. */
  turns = 0;

  /**
   * Parses the bytes of a key file; an unchanged record is the same object as before. Throws KeyStoreError, whose
   * message names `path` and the field at fault, and the errors of `read`.
   */
  async read(path: string, read: ReadBytes): Promise<KeySet> {
    const turns = new WorkTurns();
    const earlier = this.#known;
    const known = earlier.size > 2 * this.#keys.length ? new Map<string, KeyRecord>() : earlier;
    const keys: KeyRecord[] = [];
    let fault: unknown;
    const room = Buffer.allocUnsafeSlow(ROOM_BYTES);
    const cuts = cutRecords(read, room);
    let cut = await cuts.next();
    for (; !cut.done; cut = await cuts.next()) {
      const { value: bounds } = cut;
      for (let at = 0; at < bounds.length && fault === undefined; at += 2) {
        if (turns.isOver) await turns.next();
        const text = room.subarray(bounds[at], bounds[at + 1]);
        const digest = hash("sha256", text, "base64");
        try {
          const record = earlier.get(digest) ?? this.#parse(path, text, keys.length);
          if (known.get(digest) !== record) known.set(digest, record);
          keys.push(record);
        } catch (error) {
          // Only the end of the file shows whether it has our form.
          fault = error;
        }
      }
    }
    const frame = cut.value;
    // The last one of duplicate names counts, and a name can be written in several ways.
    const isPlain = frame && frame.indexOf('"keys"') === frame.lastIndexOf('"keys"') && !frame.includes("\\");
    if (!isPlain) return parseKeySet(path, await allBytes(read));
    const set = parseKeySet(path, frame);
    if (fault !== undefined) throw fault;
    if (await this.#holdsTwice(keys, turns)) throw notValid(path, undefined, ["keys"]);
    this.#known = known;
    this.#keys = keys;
    this.turns += turns.turns;
    return { ...set, keys };
  }

  /**
   * Resolves to whether two records have the same id. Records at the same position as in the newest file have different
   * ids.
   */
  async #holdsTwice(keys: readonly KeyRecord[], turns: WorkTurns): Promise<boolean> {
    const moved = keys.filter((record, at) => record !== this.#keys[at]);
    const ids = new Set(moved.map(({ id }) => id));
    if (ids.size < moved.length) return true;
    for (const [at, record] of keys.entries()) {
      if (turns.isOver) await turns.next();
      if (record === this.#keys[at] && ids.has(record.id)) return true;
    }
    return false;
  }

  #parse(path: string, text: Buffer, at: number): KeyRecord {
    this.parsed += 1;
    const checked = keyRecordSchema.safeParse(parseJson(path, text));
    if (checked.success) return checked.data;
    throw notValid(path, checked.error.issues[0], ["keys", at]);
  }
}

async function allBytes(read: ReadBytes): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let position = 0; ; ) {
    const room = Buffer.allocUnsafeSlow(ROOM_BYTES);
    const bytes = await read(room, position);
    if (bytes === 0) return Buffer.concat(pieces);
    pieces.push(room.subarray(0, bytes));
    position += bytes;
  }
}

/** Reads a pepper; undefined if there is none. Throws an error that `isKeyStoreError` accepts if it is unusable. */
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

/**
 * Reads the key file, by default with a new reader; undefined if there is none. `progress` receives the progress.
 * Throws an error that `isKeyStoreError` accepts if the file is unusable.
 */
export async function readKeyFile(
  path: string,
  reader = new KeySetReader(),
  { onAnswer, onRead }: LookProgress = { onAnswer: () => {}, onRead: () => {} },
): Promise<KeyFile | undefined> {
  const file = await openPrivateFile(path);
  if (file === undefined) return undefined;
  try {
    const pepper = await readPepper(pepperFileOf(path)).catch((error: unknown) => ({ error }));
    const set = await reader.read(path, async (room, position) => {
      const bytes = await file.read(room, position);
      onAnswer();
      return bytes;
    });
    onRead();
    // A fault of the keys is reported before a fault of the pepper.
    if (pepper !== undefined && "error" in pepper) throw pepper.error;
    assertPepperFits(path, set, pepper);
    return { set, pepper };
  } finally {
    await file.close();
  }
}

/**
 * The result of changing a key set: `set` is the new set, the same object if there is nothing to write, and `value` the
 * result for the caller.
 */
export type KeySetChange<T> = { readonly set: KeySet; readonly value: T };

/** Changes a key set. It throws if the change is refused; no key is changed then. */
export type KeySetChanger<T> = (set: KeySet, pepper: Pepper) => KeySetChange<T>;

/** Makes a pepper and writes it to the file `path`, of mode 0600. */
export async function makePepperFile(path: string): Promise<Pepper> {
  const bytes = randomBytes(PEPPER_BYTES);
  await writePrivateFile(path, bytes);
  return makePepper(bytes);
}

/** Runs `run` under the lock of the key file, after removing the temporary files of killed changes. */
async function whileLocked<T>(path: string, run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return await withFileLock(
    `${path}.lock`,
    async () => {
      for (const left of await unfinishedKeyWrites(path)) await rm(left, { force: true }).catch(() => {});
      return await run();
    },
    signal,
  );
}

/**
 * Resolves to the paths of temporary files that killed changes left beside the key file `path`. During a change, its
 * own file is among them.
 */
export async function unfinishedKeyWrites(path: string): Promise<readonly string[]> {
  return [...(await unfinishedWrites(path)), ...(await unfinishedWrites(pepperFileOf(path)))];
}

async function changeLocked<T>(path: string, create: boolean, change: KeySetChanger<T>): Promise<T> {
  const file = await readKeyFile(path);
  if (file === undefined && !create) throw new KeyStoreError("missing", `there is no key file at ${path}`);
  const seen = await readSeenRevision(path);
  // Otherwise the change would make an old file the newest. Without a file, revisions continue above the newest one
  // that was in use.
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

/** Writes a key set under a new revision, after its lines in the audit log. */
async function writeSet(path: string, set: KeySet, addition: Omit<AuditAddition, "wallMs">): Promise<void> {
  // The log comes first, and a failure ends the change: no key changes without an audit line.
  const auditHead = await appendAudit(auditFileOf(path), { ...addition, wallMs: systemClock.wallMs() });
  const { keys, ...rest } = set;
  const { revision } = addition;
  const next: KeySet = { ...rest, revision, ...(auditHead !== undefined && { auditHead }), keys };
  await writePrivateFile(path, `${JSON.stringify(next, null, 2)}\n`);
}

/**
 * Replaces the keys of `path` by those of the file `from`, which may be `path` itself, as a new revision that running
 * gateways accept although the keys are old. The audit log continues and records the restore. Resolves to the written
 * set. Throws an error that `isKeyStoreError` accepts, with the fault `locked` if `signal` aborts while another process
 * holds the lock.
 */
export async function restoreKeyFile(path: string, from: string, signal: AbortSignal): Promise<KeySet> {
  return await whileLocked(
    path,
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
 * Reads, changes and replaces the key file under its lock, `<path>.lock`, and logs the change in its audit log. With
 * `create` a missing folder, file and pepper are created. Throws an error that `isKeyStoreError` accepts, with the
 * fault `locked` if `signal` aborts while another process holds the lock, or an error of `change`; no file is written
 * then.
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
  return await whileLocked(path, () => changeLocked(path, create, change), signal);
}
