import { hash, randomBytes } from "node:crypto";
import { dirname, join } from "node:path";
import type * as z from "zod";
import { readPrivateFile, unfinishedWrites, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { WorkSlices } from "../../deploy/runtime/time/work-slices.ts";
import { makePepper, PEPPER_BYTES, type Pepper } from "./key-digest.ts";
import { jsonOf, type KeyRecord, type KeySet, keyRecordSchema, keySetSchema } from "./key-record.ts";
import { KeyStoreError } from "./key-store.ts";

export type KeyFile = {
  readonly set: KeySet;
  /** Undefined only while the set is empty. */
  readonly pepper: Pepper | undefined;
};

/** Returns the path of the pepper, in the folder of the key file: 32 random bytes, mode 0600. */
export function pepperFileOf(keyFile: string): string {
  return join(dirname(keyFile), "pepper");
}

/** Parses the bytes of a key file. Throws KeyStoreError, whose message names `path` and the field at fault. */
export function parseKeySet(path: string, bytes: Buffer): KeySet {
  const json = jsonOf(bytes);
  // The message of the parser would quote the text.
  if (json === undefined) throw new KeyStoreError("not_json", `${path} is not valid JSON`);
  return valid(path, keySetSchema, json);
}

/** Reads the keys of a file, whatever their pepper. */
export async function readKeySet(path: string): Promise<KeySet> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) throw new KeyStoreError("missing", `there is no file ${path}`);
  return parseKeySet(path, bytes);
}

function valid<T>(path: string, schema: z.ZodType<T>, json: unknown, at: readonly PropertyKey[] = []): T {
  const checked = schema.safeParse(json);
  if (checked.success) return checked.data;
  throw notValid(path, checked.error.issues[0], at);
}

function notValid(path: string, issue: z.core.$ZodIssue | undefined, at: readonly PropertyKey[]): KeyStoreError {
  const where = [...at, ...(issue?.path ?? [])].join(".") || "the top level";
  const unknown = issue?.code === "unrecognized_keys" ? `: unknown field ${issue.keys.join(", ")}` : "";
  const newer =
    issue?.path.at(-1) === "v" ? ": it is of another release, which wrote what this one must not pass over" : "";
  return new KeyStoreError("not_valid", `${path} is not a valid key file, at ${where}${unknown}${newer}`);
}

const [NEWLINE, COMMA] = [0x0a, 0x2c];
/** Ends of the first line and of the file, as `keySetText` writes them. */
const [BEGIN, END] = ['"keys":[', "\n]}\n"];

/** Writes a key set as JSON with a line for each record, so that it can be read record by record. */
export function keySetText({ keys, ...rest }: KeySet): string {
  const lines = keys.map((record) => `\n${JSON.stringify(record)}`);
  return `${JSON.stringify(rest).slice(0, -1)},${BEGIN}${lines.join(",")}${END}`;
}

/**
 * Parses key files over several ticks of the event loop, so that 100,000 keys do not block requests, and parses only
 * records whose lines changed since the last file: unchanged ones are not allocated again.
 */
export class KeySetReader {
  #known: ReadonlyMap<string, KeyRecord> = new Map();

  /**
   * Parses the bytes of a key file; an unchanged record is the same object as before. JSON of another form than that of
   * `keySetText` is parsed at once. Throws KeyStoreError, whose message names `path` and the field at fault.
   */
  async read(path: string, bytes: Buffer): Promise<KeySet> {
    const first = bytes.toString("utf8", 0, bytes.indexOf(NEWLINE));
    const end = bytes.length - END.length;
    if (!first.endsWith(BEGIN) || bytes.toString("latin1", Math.max(0, end)) !== END) return parseKeySet(path, bytes);
    const slices = new WorkSlices();
    const known = new Map<string, KeyRecord>();
    const keys: KeyRecord[] = [];
    for (let at = bytes.indexOf(NEWLINE) + 1; at <= end; ) {
      if (slices.isOver) await slices.next();
      const lineEnd = bytes.indexOf(NEWLINE, at);
      const isLast = lineEnd === end;
      const line = bytes.subarray(at, isLast ? lineEnd : lineEnd - 1);
      at = lineEnd + 1;
      const digest = hash("sha256", line, "base64");
      const json = this.#known.get(digest) ?? jsonOf(line);
      if (json === undefined || (!isLast && bytes[lineEnd - 1] !== COMMA)) return parseKeySet(path, bytes);
      const record = this.#known.get(digest) ?? valid(path, keyRecordSchema, json, ["keys", keys.length]);
      known.set(digest, record);
      keys.push(record);
    }
    const set = parseKeySet(path, Buffer.from(`${first}]}`));
    if (new Set(keys.map(({ id }) => id)).size < keys.length) throw notValid(path, undefined, ["keys"]);
    this.#known = known;
    return { ...set, keys };
  }
}

export async function readPepper(path: string): Promise<Pepper | undefined> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) return undefined;
  if (bytes.length !== PEPPER_BYTES)
    throw new KeyStoreError("pepper_not_valid", `${path} should hold ${PEPPER_BYTES} bytes`);
  return makePepper(bytes);
}

export function assertPepperFits(path: string, pepper: Pepper | undefined, { keys }: Pick<KeySet, "keys">): void {
  if (keys.length === 0) return;
  if (pepper === undefined)
    throw new KeyStoreError("pepper_missing", `${path} is missing; the keys cannot be checked without it`);
  if (keys.some(({ secrets }) => secrets.some(({ pepperId }) => pepperId !== pepper.id)))
    throw new KeyStoreError("pepper_mismatch", `${path} is not the pepper that the keys were made with`);
}

/** Reads the key file; undefined if there is none. `onRead` is called when the file system is done. */
export async function readKeyFile(
  path: string,
  reader = new KeySetReader(),
  onRead = () => {},
): Promise<KeyFile | undefined> {
  const bytes = await readPrivateFile(path);
  if (bytes === undefined) return undefined;
  const pepper = await readPepper(pepperFileOf(path)).catch((error: unknown) => ({ error }));
  onRead();
  const set = await reader.read(path, bytes);
  // A fault of the keys is reported before a fault of the pepper.
  if (pepper !== undefined && "error" in pepper) throw pepper.error;
  assertPepperFits(pepperFileOf(path), pepper, set);
  return { set, pepper };
}

export type KeySetChange<T> = { readonly set: KeySet; readonly value: T };

/** Changes a key set. It throws if the change is refused; no key is changed then. */
export type KeySetChanger<T> = (set: KeySet, pepper: Pepper) => KeySetChange<T>;

export async function makePepperFile(path: string): Promise<Pepper> {
  const bytes = randomBytes(PEPPER_BYTES);
  await writePrivateFile(path, bytes);
  return makePepper(bytes);
}

/** Resolves to the temporary files of killed changes beside the key file; that of a running change is among them. */
export async function unfinishedKeyWrites(path: string): Promise<readonly string[]> {
  return [...(await unfinishedWrites(path)), ...(await unfinishedWrites(pepperFileOf(path)))];
}

/** Returns the error of a key file that is older than one in use; undefined for a newer one. */
export function olderFile(keyFile: string, revision: number, seen: number): KeyStoreError | undefined {
  if (revision >= seen) return undefined;
  return new KeyStoreError(
    "revision_went_back",
    `${keyFile} has revision ${revision}, and revision ${seen} was in use: put the newer file back, or have this one taken with 'keys restore --above ${seen}'`,
  );
}
