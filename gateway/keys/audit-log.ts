import { createHash, createHmac } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { hostname } from "node:os";
import { basename } from "node:path";
import * as z from "zod";
import { errnoOf } from "../../deploy/runtime/files/errno.ts";
import type { KeyChange } from "./key-change.ts";
import { deriveKey, type Pepper } from "./key-digest.ts";
import { KeyStoreError } from "./key-store-error.ts";

/*
 * Who changed which key, as JSON lines. Each line ends with a MAC of itself under a key made of the pepper, and holds
 * the MAC of the line before; the key set holds that of the last one, the head of the chain. So a line that was made
 * up, altered, taken out or cut off later shows to whoever has the pepper, and nobody else can write a log anew. Lines
 * of before the log was keyed hold the plain digest of the line before; the first keyed line vouches for them as they
 * were then. Never a secret, a digest of one, or a value: only the names of fields.
 */

const hex32 = z.string().regex(/^[0-9a-f]{64}$/);

/** A newer release may write more into a line; its MAC is of the text, so that the line holds all the same. */
const entry = z.object({
  /** The time of the change, RFC 3339 in UTC. */
  ts: z.iso.datetime(),
  /** Who made the change. `uid` is null on a system without user ids; `program` is the file that was run. */
  actor: z.object({ uid: z.int().nullable(), host: z.string(), program: z.string() }),
  action: z.string(),
  keyId: z.string(),
  fields: z.array(z.string()),
  /** The revision of the key set that the change made. */
  revision: z.int(),
  /**
   * The link to the line before: its MAC, or the SHA-256 of the whole line where that has none, in hex; zeros for the
   * first line.
   */
  prev: hex32,
  /** The HMAC-SHA256 of this line without this field, in hex; absent in lines of before the log was keyed. */
  mac: hex32.optional(),
});

/** One line of the audit log. */
export type AuditEntry = Readonly<z.infer<typeof entry>>;

/** What stands in the audit log, as far as it can be relied on. */
export type AuditLog = {
  /** The entries in their order, up to the first broken line. */
  readonly entries: readonly AuditEntry[];
  /** The number of the first line, from 1, that is not as it was written; undefined when all are. */
  readonly brokenAt: number | undefined;
};

/** What the first line of a log has as its link to the line before. */
export const NO_LINE = "0".repeat(64);
/**
 * The line that says of those before it with the same revision that their change was broken off before it took effect.
 * The change that makes the revision after all writes it.
 */
const BROKEN_OFF: KeyChange = { action: "broken-off", keyId: "*", fields: [] };
/** The bytes in which the last line surely fits: far more than one line can have. */
const TAIL_BYTES = 65_536;
/**
 * The flags with which the log is opened: one that is a symbolic link was put there by somebody else, or leads to a
 * file that is not meant.
 */
const APPEND = constants.O_APPEND | constants.O_CREAT | constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);

/** Returns the path of the audit log of a key file, which lies beside it. */
export function auditFileOf(keyFile: string): string {
  return `${keyFile}.audit.jsonl`;
}

/** Reads the text of an audit log that was keyed with `pepper`. Entries behind a broken line are left out. */
export function readAudit(text: string, pepper: Pepper | undefined): AuditLog {
  const key = pepper && auditKey(pepper);
  const entries: AuditEntry[] = [];
  let prev = NO_LINE;
  let keyed = false;
  const lines = text.split("\n");
  // The text ends with a line's end.
  if (lines.at(-1) === "") lines.pop();
  for (const [at, line] of lines.entries()) {
    const found = parseLine(line);
    keyed ||= found?.mac !== undefined;
    const genuine = !keyed || (key !== undefined && found?.mac !== undefined && found.mac === macOf(line, key));
    if (found?.prev !== prev || !genuine) return { entries, brokenAt: at + 1 };
    entries.push(found);
    prev = found.mac ?? sha256(line);
  }
  return { entries, brokenAt: undefined };
}

/** An entry of a line that was keyed. */
export type KeyedEntry = AuditEntry & { readonly mac: string };

/**
 * Makes a check of single lines that were keyed with `pepper`. The check returns the entry of a line that is as it was
 * written and links to the MAC `prev`, or to anything where that is undefined; undefined for every other line.
 */
export function lineCheck(pepper: Pepper): (line: string, prev: string | undefined) => KeyedEntry | undefined {
  const key = auditKey(pepper);
  return (line, prev) => {
    const found = parseLine(line);
    if (found?.mac === undefined || found.mac !== macOf(line, key)) return undefined;
    return prev === undefined || found.prev === prev ? { ...found, mac: found.mac } : undefined;
  };
}

/** What a change of keys adds to the audit log. */
export type AuditAddition = {
  /** The changes of keys, one for each key that has changed. */
  readonly changes: readonly KeyChange[];
  /** The revision of the key set that the changes make. */
  readonly revision: number;
  /** The head of the chain that the key set of before has; undefined where it has none yet. */
  readonly head: string | undefined;
  /** The pepper of the key set, from which the key of the chain is made. */
  readonly pepper: Pepper;
  /** The wall clock in milliseconds since the epoch. */
  readonly wallMs: number;
};

/**
 * Makes a line, without its line break, for each change; the first links to `prev`, by default to the first line of all.
 * Returns them with the head of the chain, which the new key set is to have.
 */
export function auditLines(
  { changes, revision, pepper, wallMs }: AuditAddition,
  prev: string = NO_LINE,
): { readonly lines: readonly string[]; readonly head: string } {
  const key = auditKey(pepper);
  const ts = new Date(wallMs).toISOString();
  const actor = { uid: process.getuid?.() ?? null, host: hostname(), program: basename(process.argv[1] ?? "") };
  let head = prev;
  const lines = changes.map((change) => {
    const body = JSON.stringify({ ts, actor, ...change, revision, prev: head } satisfies AuditEntry);
    head = hmac(body, key);
    return `${body.slice(0, -1)},"mac":"${head}"}`;
  });
  return { lines, head };
}

/**
 * Adds a line for each change and waits until they are on disk. Resolves to the head of the chain, which the new key
 * set is to have. Where the log does not end as the head says, the new lines link to what should be there, so that the
 * gap stays visible. To be called while nobody else writes. Throws KeyStoreError `unwritable`.
 */
export async function appendAudit(file: string, addition: AuditAddition): Promise<string | undefined> {
  const { changes } = addition;
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, APPEND, 0o600);
    const last = await lastLine(handle);
    // A change of nothing that is logged leaves the chain as it is.
    if (changes.length === 0) return addition.head;
    const { prev, brokenOff } = await linkOf(handle, last.text, addition);
    const told = brokenOff ? [BROKEN_OFF, ...changes] : changes;
    const { lines, head } = auditLines({ ...addition, changes: told }, prev);
    await handle.appendFile((last.whole ? "" : "\n") + lines.map((line) => `${line}\n`).join(""));
    await handle.sync();
    return head;
  } catch (cause) {
    const text = `${file} cannot be written (${errnoOf(cause)}), so nothing was changed`;
    throw new KeyStoreError("unwritable", text, { cause });
  } finally {
    await handle?.close();
  }
}

/** What the next line links to, and whether lines of a change that was broken off stand before it. */
type Link = { readonly prev: string; readonly brokenOff: boolean };

/**
 * Returns what the next line links to. That is the last line, where it is the one that the key set knows, or one that a
 * change which was broken off has left behind that.
 */
async function linkOf(handle: FileHandle, last: string, { head, revision, pepper }: AuditAddition): Promise<Link> {
  const found = parseLine(last);
  const to = (prev: string): Link => ({ prev, brokenOff: false });
  if (found?.mac !== undefined && found.mac === head) return to(head);
  const key = auditKey(pepper);
  const isLeftOver = found?.mac !== undefined && found.mac === macOf(last, key) && found.revision === revision;
  if (isLeftOver) {
    const { entries, brokenAt } = readAudit((await wholeText(handle)).toString("utf8"), pepper);
    const isBehind = head === undefined || (brokenAt === undefined && entries.some(({ mac }) => mac === head));
    return isBehind ? { prev: found.mac, brokenOff: true } : to(head);
  }
  if (head !== undefined) return to(head);
  // A key set that has lost its head must not make what was cut good.
  return to(last === "" || found?.mac !== undefined ? NO_LINE : sha256(last));
}

/**
 * Returns the last line of the log without its line break. `whole` says whether it ends in one, so that another line
 * can follow.
 */
async function lastLine(handle: FileHandle): Promise<{ text: string; whole: boolean }> {
  const { size } = await handle.stat();
  const length = Math.min(size, TAIL_BYTES);
  const { buffer } = await handle.read(Buffer.alloc(length), 0, length, size - length);
  const tail = buffer.toString("utf8");
  const whole = tail === "" || tail.endsWith("\n");
  return { text: (whole ? tail.slice(0, -1) : tail).split("\n").at(-1) ?? "", whole };
}

async function wholeText(handle: FileHandle): Promise<Buffer> {
  const { size } = await handle.stat();
  const { buffer } = await handle.read(Buffer.alloc(size), 0, size, 0);
  return buffer;
}

function parseLine(line: string): AuditEntry | undefined {
  try {
    return entry.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

/** The key is of the audit log's own: the pepper also makes other digests. */
function auditKey(pepper: Pepper): Buffer {
  return deriveKey(pepper, "svc audit log");
}

/** Returns the MAC that a line should have; undefined where none ends it in the form in which lines are written. */
function macOf(line: string, key: Buffer): string | undefined {
  const body = /^(.*),"mac":"[0-9a-f]{64}"\}$/s.exec(line)?.[1];
  return body === undefined ? undefined : hmac(`${body}}`, key);
}

function hmac(text: string, key: Buffer): string {
  return createHmac("sha256", key).update(text).digest("hex");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
