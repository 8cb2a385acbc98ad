import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { KeyStoreError } from "./key-store.ts";

/*
 * The newest state of the keys that was in use. It is kept apart from the keys, because older keys are refused after a
 * restart, too: keys that were revoked since would be valid again.
 */

/** Milliseconds that a write waits for another one to finish. */
const LOCK_WAIT_MS = 2_000;

/** A state of the keys in a store, by the newest line of its audit log. */
export type StoreState = {
  readonly revision: number;
  /** Identity of the history: the MAC of the line that began it. */
  readonly id: string;
  /** Index of the line in the audit log, from 0, and its MAC. */
  readonly index: number;
  readonly mac: string;
};

export function seenFileOf(file: string): string {
  return `${file}.seen`;
}

/** Resolves to the newest revision of a key file that was ever in use on this host; 0 if none was recorded. */
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

/** Returns the file with the newest state of a store. Earlier releases wrote another form to `<pepper>.seen`. */
export function newestFileOf(pepperFile: string): string {
  return `${pepperFile}.newest`;
}

/** Resolves to the newest state of a store that was in use on this host; undefined if none was recorded. */
export async function readNewest(pepperFile: string): Promise<StoreState | undefined> {
  const path = newestFileOf(pepperFile);
  const text = await readText(path);
  const state = parseState(text ?? "");
  if (text !== undefined && !state) throw new KeyStoreError("not_valid", `${path} should hold the state of a store`);
  return state;
}

/** Records a state, if it is newer than the recorded one, or `always`: the store has lost that one for good. */
export async function noteNewest(pepperFile: string, state: StoreState, always: boolean): Promise<void> {
  const path = newestFileOf(pepperFile);
  const note = async () => {
    const known = always ? undefined : await readNewest(pepperFile);
    if (!known || state.revision > known.revision) await writePrivateFile(path, `${stateText(state)}\n`);
  };
  // Several gateways and commands of this host may write at the same time.
  await withFileLock(`${path}.lock`, note, AbortSignal.timeout(LOCK_WAIT_MS));
}

export function stateText({ revision, id, index, mac }: StoreState): string {
  return `${revision} ${id} ${index} ${mac}`;
}

export function parseState(text: string): StoreState | undefined {
  const [, revision, id, index, mac] = /^(\d{1,15}) ([0-9a-f]{64}) (\d{1,15}) ([0-9a-f]{64})$/.exec(text) ?? [];
  return id && mac ? { revision: Number(revision), id, index: Number(index), mac } : undefined;
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
