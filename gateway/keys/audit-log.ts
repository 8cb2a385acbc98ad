import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { hostname } from "node:os";
import { basename } from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { errnoOf } from "../../deploy/runtime/files/private-file.ts";
import { deriveKey, hmacSha256, type Pepper } from "./key-digest.ts";
import type { KeyRecord, KeySet } from "./key-record.ts";
import { KeyStoreError } from "./key-store.ts";

/*
 * The audit log of key changes, as JSON lines. Each line ends with its MAC under a key derived from the pepper, and
 * holds the MAC of the line before; the key set holds the MAC of the last line, the head of the chain. A line that was
 * forged, altered, removed or cut off is therefore detected with the pepper, and the log cannot be rewritten without
 * it. The log never holds a secret, a digest of one, or a value: only the names of fields.
 */

const hex32 = z.string().regex(/^[0-9a-f]{64}$/);

/** A newer release may add fields; the MAC covers the text, so it still fits. */
const entry = z.object({
  ts: z.iso.datetime(),
  /** `uid` is null on a system without user ids; `program` is the executed file. */
  actor: z.object({ uid: z.int().nullable(), host: z.string(), program: z.string() }),
  action: z.string(),
  keyId: z.string(),
  fields: z.array(z.string()),
  revision: z.int(),
  /** MAC of the line before, in hex; zeros for the first line. */
  prev: hex32,
  /** HMAC-SHA256 of this line without this field, in hex. */
  mac: hex32,
});

export type AuditEntry = Readonly<z.infer<typeof entry>>;

export type AuditLog = {
  readonly entries: readonly AuditEntry[];
  readonly brokenAt: number | undefined;
};

export const NO_LINE = "0".repeat(64);
/** Begins the lines of a restore. */
export const RESTORE: KeyChange = { action: "restore", keyId: "*", fields: [] };
/** Begins the lines of changes that a store lost and a gateway writes again. */
export const PUT_BACK: KeyChange = { action: "put-back", keyId: "*", fields: [] };
/** Marks earlier lines of the same revision, of changes that were interrupted before they took effect. */
const BROKEN_OFF: KeyChange = { action: "broken-off", keyId: "*", fields: [] };
/** A symbolic link is refused: an attacker may have placed it, or it leads to an unintended file. */
const APPEND = constants.O_APPEND | constants.O_CREAT | constants.O_RDWR | (constants.O_NOFOLLOW ?? 0);

/** Describes a log of unsigned lines to operators, and what they can do. */
export const EARLIER =
  "an earlier release wrote it, without signatures: move it away, and the next change begins a new one";

/** Bytes at the end of a log that hold its last line. */
const TAIL_BYTES = 65_536;

export function auditFileOf(keyFile: string): string {
  return `${keyFile}.audit.jsonl`;
}

/** Reads the text of an audit log that was keyed with `pepper`. Entries after a broken line are omitted. */
export function readAudit(text: string, pepper: Pepper | undefined): AuditLog {
  const check = pepper ? lineCheck(pepper) : () => undefined;
  const entries: AuditEntry[] = [];
  const lines = text.split("\n");
  // The text ends with a line break.
  if (lines.at(-1) === "") lines.pop();
  for (const [at, line] of lines.entries()) {
    const found = check(line);
    if (found?.prev !== (entries.at(-1)?.mac ?? NO_LINE)) return { entries, brokenAt: at + 1 };
    entries.push(found);
  }
  return { entries, brokenAt: undefined };
}

/** Makes a check of single lines, which returns the entry of an unaltered line that was keyed with `pepper`. */
export function lineCheck(pepper: Pepper): (line: string) => AuditEntry | undefined {
  const key = auditKey(pepper);
  return (line) => {
    const [, body, mac] = /^(.*),"mac":"([0-9a-f]{64})"\}$/s.exec(line) ?? [];
    if (mac === undefined || mac !== hmacSha256(key, `${body}}`).toString("hex")) return undefined;
    return entry.safeParse(JSON.parse(line)).data;
  };
}

export type AuditAddition = {
  readonly changes: readonly KeyChange[];
  readonly revision: number;
  readonly head: string | undefined;
  /** The key of the chain is derived from this pepper. */
  readonly pepper: Pepper;
  readonly wallMs: number;
};

/**
 * Makes a line, without its line break, for each change; the first links to `prev`, by default as the first line of a
 * log. Returns the lines with the new head of the chain, for the new key set.
 */
export function auditLines(
  { changes, revision, pepper, wallMs }: Omit<AuditAddition, "head">,
  prev: string = NO_LINE,
): { readonly lines: readonly string[]; readonly head: string } {
  const key = auditKey(pepper);
  const ts = new Date(wallMs).toISOString();
  const actor = { uid: process.getuid?.() ?? null, host: hostname(), program: basename(process.argv[1] ?? "") };
  let head = prev;
  const lines = changes.map((change) => {
    const body = JSON.stringify({ ts, actor, ...change, revision, prev: head } satisfies Omit<AuditEntry, "mac">);
    head = hmacSha256(key, body).toString("hex");
    return `${body.slice(0, -1)},"mac":"${head}"}`;
  });
  return { lines, head };
}

/**
 * Adds a line for each change and waits until the lines are on disk. Resolves to the new head of the chain, for the new
 * key set. If the log does not end with the current head, the new lines link to the expected head, so that the gap
 * stays visible. The caller must hold the lock of the key file. Throws KeyStoreError `unwritable`.
 */
export async function appendAudit(file: string, addition: AuditAddition): Promise<string | undefined> {
  const { changes } = addition;
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, APPEND, 0o600);
    // A change without logged fields leaves the chain unchanged.
    if (changes.length === 0) return addition.head;
    const { line: last, isCut } = await lastLine(handle);
    if (addition.head === undefined && last !== "" && !last.includes('"mac"'))
      throw new KeyStoreError("unwritable", `${file}: ${EARLIER}`);
    const { prev, brokenOff } = linkOf(last, addition);
    const noted = brokenOff ? [BROKEN_OFF, ...changes] : changes;
    const { lines, head } = auditLines({ ...addition, changes: noted }, prev);
    await handle.appendFile((isCut ? "\n" : "") + lines.map((line) => `${line}\n`).join(""));
    await handle.sync();
    return head;
  } catch (cause) {
    if (cause instanceof KeyStoreError) throw cause;
    const text = `${file} cannot be written (${errnoOf(cause)}), so nothing was changed`;
    throw new KeyStoreError("unwritable", text, { cause });
  } finally {
    await handle?.close();
  }
}

/** Reads the last line from the end of the file, and whether its line break is missing; empty if there is none. */
async function lastLine(handle: FileHandle): Promise<{ readonly line: string; readonly isCut: boolean }> {
  const { size } = await handle.stat();
  const position = Math.max(0, size - TAIL_BYTES);
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(TAIL_BYTES), position });
  const text = buffer.toString("utf8", 0, bytesRead);
  const isCut = text !== "" && !text.endsWith("\n");
  return { line: (isCut ? text : text.slice(0, -1)).split("\n").at(-1) ?? "", isCut };
}

/** Returns the MAC that a new line links to: that of the head of the key set, or of lines that an interrupted change left. */
function linkOf(last: string, { head, revision, pepper }: AuditAddition): { prev: string; brokenOff: boolean } {
  const newest = lineCheck(pepper)(last);
  if (newest?.revision === revision && newest.mac !== head) return { prev: newest.mac, brokenOff: true };
  // A key set without a head must not repair a log that was cut.
  return { prev: head ?? NO_LINE, brokenOff: false };
}

/** A derived key, because the pepper also keys other digests. */
function auditKey(pepper: Pepper): Buffer {
  return deriveKey(pepper, "svc audit log");
}

/** The difference of one key between two sets. */
export type KeyChange = {
  /** The command that makes such a change, for example `create`, `rotate` or `set-limits`; otherwise `change`. */
  readonly action: string;
  readonly keyId: string;
  /** Names of the changed fields; a field of limits is followed by a dot and the name of the limit. */
  readonly fields: string[];
};

const STATUS_ACTION: Readonly<Record<KeyRecord["status"], string>> = {
  active: "enable",
  disabled: "disable",
  revoked: "revoke",
};

/** Fields that every change modifies. */
const BOOKKEEPING = new Set(["updated", "revision"]);

/** Returns the changes of each key between two sets, the keys of `after` first. */
export function keyChanges(before: KeySet, after: KeySet): readonly KeyChange[] {
  const known = new Map(before.keys.map((record) => [record.id, record]));
  const changes = after.keys.flatMap((record): KeyChange[] => {
    const old = known.get(record.id);
    known.delete(record.id);
    if (old === record) return [];
    if (old === undefined) return [{ action: "create", keyId: record.id, fields: [] }];
    const fields = differing(old, record);
    return [{ action: actionOf(old, record, fields), keyId: record.id, fields }];
  });
  return [...changes, ...[...known.keys()].map((keyId) => ({ action: "remove", keyId, fields: [] }))];
}

function actionOf(old: KeyRecord, { status }: KeyRecord, fields: readonly string[]): string {
  if (old.status !== status) return STATUS_ACTION[status];
  if (fields.includes("endRunning")) return "kill";
  if (fields.includes("secrets")) return "rotate";
  if (fields.length > 0 && fields.every((field) => field === "models")) return "set-models";
  if (fields.length > 0 && fields.every((field) => field === "allowIps")) return "set-ips";
  if (fields.length > 0 && fields.every((field) => /^(limits|quota)\./.test(field))) return "set-limits";
  return "change";
}

function differing(old: object, record: object, prefix = ""): string[] {
  return [...new Set([...Object.keys(old), ...Object.keys(record)])].flatMap((name) => {
    const [was, is] = [Reflect.get(old, name), Reflect.get(record, name)];
    if (BOOKKEEPING.has(name) || isDeepStrictEqual(was, is)) return [];
    if (name === "limits" || name === "quota") return differing(was, is, `${name}.`);
    return [`${prefix}${name}`];
  });
}
