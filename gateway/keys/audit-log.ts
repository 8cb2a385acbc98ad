import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { hostname } from "node:os";
import { basename } from "node:path";
import * as z from "zod";
import { errnoOf } from "../../deploy/runtime/files/errno.ts";
import type { KeyChange } from "./key-change.ts";
import { KeyStoreError } from "./key-store-error.ts";

/*
 * Who changed which key, as JSON lines. Each line holds the digest of the one before, so that a line that was altered
 * or taken out later shows. Never a secret, a digest of one, or a value: only the names of fields.
 */

const entry = z.strictObject({
  /** The time of the change, RFC 3339 in UTC. */
  ts: z.iso.datetime(),
  /** Who made the change. `uid` is null on a system without user ids; `program` is the file that was run. */
  actor: z.strictObject({ uid: z.int().nullable(), host: z.string(), program: z.string() }),
  action: z.string(),
  keyId: z.string(),
  fields: z.array(z.string()),
  /** The revision of the key set that the change made. */
  revision: z.int(),
  /** The SHA-256 of the line before without its line break, in hex; zeros for the first line. */
  prev: z.string().regex(/^[0-9a-f]{64}$/),
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

const NO_LINE = "0".repeat(64);
/** The bytes in which the last line surely fits: far more than one line can have. */
const TAIL_BYTES = 65_536;

/** Returns the path of the audit log of a key file, which lies beside it. */
export function auditFileOf(keyFile: string): string {
  return `${keyFile}.audit.jsonl`;
}

/** Reads the text of an audit log. Entries behind a broken line are left out. */
export function readAudit(text: string): AuditLog {
  const entries: AuditEntry[] = [];
  let prev = NO_LINE;
  const lines = text.split("\n");
  // The text ends with a line's end.
  if (lines.at(-1) === "") lines.pop();
  for (const [at, line] of lines.entries()) {
    const found = parseLine(line);
    if (found?.prev !== prev) return { entries, brokenAt: at + 1 };
    entries.push(found);
    prev = digest(line);
  }
  return { entries, brokenAt: undefined };
}

/**
 * Adds a line for each change and waits until they are on disk. `wallMs` is the wall clock in milliseconds since the
 * epoch. It is to be called while nobody else writes. Throws KeyStoreError `unwritable`.
 */
export async function appendAudit(
  file: string,
  changes: readonly KeyChange[],
  revision: number,
  wallMs: number,
): Promise<void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file, "a+", 0o600);
    const last = await lastLine(handle);
    let prev = last.text === "" ? NO_LINE : digest(last.text);
    const ts = new Date(wallMs).toISOString();
    const actor = { uid: process.getuid?.() ?? null, host: hostname(), program: basename(process.argv[1] ?? "") };
    const lines = changes.map((change) => {
      const line = JSON.stringify({ ts, actor, ...change, revision, prev } satisfies AuditEntry);
      prev = digest(line);
      return `${line}\n`;
    });
    await handle.appendFile((last.whole ? "" : "\n") + lines.join(""));
    await handle.sync();
  } catch (cause) {
    const text = `${file} cannot be written (${errnoOf(cause)}), so nothing was changed`;
    throw new KeyStoreError("unwritable", text, { cause });
  } finally {
    await handle?.close();
  }
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

function parseLine(line: string): AuditEntry | undefined {
  try {
    return entry.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

function digest(line: string): string {
  return createHash("sha256").update(line).digest("hex");
}
