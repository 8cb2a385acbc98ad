import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { KeyStoreError } from "./key-store.ts";

/*
 * The newest keys that were in use on this host, beside the key file or the pepper of a store: older keys are refused
 * after a restart, too, because keys that were revoked since would be valid again.
 */

/** Milliseconds that a write waits for another one to finish. */
const LOCK_WAIT_MS = 2_000;

/** The newest state of the keys in a store that was in use. */
export type SeenHead = {
  readonly revision: number;
  /** Identity of the store: the MAC of the audit line that began it. */
  readonly id: string;
  readonly auditHead: string;
  /** Time of the newest line, RFC 3339 in UTC. */
  readonly ts: string;
};

export function seenFileOf(file: string): string {
  return `${file}.seen`;
}

/** Resolves to the newest revision of a key file that was ever in use; 0 if none was recorded. */
export async function readSeenRevision(keyFile: string): Promise<number> {
  const path = seenFileOf(keyFile);
  const text = (await readText(path)) ?? "0";
  if (!/^\d{1,15}$/.test(text)) throw new KeyStoreError("not_valid", `${path} should hold the number of a revision`);
  return Number(text);
}

/** Records that a revision is in use, if it is newer than the recorded one. */
export async function noteSeenRevision(keyFile: string, revision: number): Promise<void> {
  if (revision > (await readSeenRevision(keyFile))) await writePrivateFile(seenFileOf(keyFile), `${revision}\n`);
}

/** Resolves to the newest state of a store of keys that was in use with this pepper; undefined if none was recorded. */
export async function readSeenHead(pepperFile: string): Promise<SeenHead | undefined> {
  const path = seenFileOf(pepperFile);
  const text = await readText(path);
  const head = parseSeenHead(text ?? "");
  if (text !== undefined && !head) throw new KeyStoreError("not_valid", `${path} should hold the head of a store`);
  return head;
}

/** Records the state of a store, if it is newer than the recorded one or `isForked`: the store has lost that one. */
export async function noteSeenHead(pepperFile: string, head: SeenHead, isForked = false): Promise<void> {
  const path = seenFileOf(pepperFile);
  const note = async () => {
    const seen = isForked ? undefined : await readSeenHead(pepperFile);
    const isNewer = !seen || (seen.id === head.id ? head.revision > seen.revision : head.ts > seen.ts);
    if (isNewer) await writePrivateFile(path, `${seenHeadText(head)}\n`);
  };
  // Several gateways and commands of this host may write at the same time.
  await withFileLock(`${path}.lock`, note, AbortSignal.timeout(LOCK_WAIT_MS));
}

export function seenHeadText({ revision, id, auditHead, ts }: SeenHead): string {
  return `${revision} ${id} ${auditHead} ${ts}`;
}

export function parseSeenHead(text: string): SeenHead | undefined {
  const [, revision, id, auditHead, ts] = /^(\d{1,15}) ([0-9a-f]{64}) ([0-9a-f]{64}) (\S{20,30})$/.exec(text) ?? [];
  return revision && id && auditHead && ts ? { revision: Number(revision), id, auditHead, ts } : undefined;
}

async function readText(path: string): Promise<string | undefined> {
  return (await readPrivateFile(path))?.toString("utf8").trim();
}

/** Throws KeyStoreError `revision_went_back` if a key file is older than a revision that was in use. */
export function assertNotOlder(keyFile: string, revision: number, seen: number): void {
  if (revision >= seen) return;
  throw new KeyStoreError(
    "revision_went_back",
    `${keyFile} has revision ${revision}, and revision ${seen} was in use: put the newer file back, or have this one taken with 'keys restore'`,
  );
}
