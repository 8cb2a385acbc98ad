import { withFileLock } from "../../deploy/runtime/files/file-lock.ts";
import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { KeyStoreError } from "./key-store.ts";

/*
 * The newest state of the keys that was in use. It is kept apart from the keys, because older keys are refused after a
 * restart, too: keys that were revoked since would be valid again.
 */

/** Milliseconds that a write waits for another one to finish. */
const LOCK_WAIT_MS = 2_000;

export type KeyState = {
  readonly revision: number;
  /** In a store: index of the newest line of the audit log, from 0, and its MAC; empty for a key file. */
  readonly index: number;
  readonly mac: string;
};

const NO_STATE: KeyState = { revision: 0, index: 0, mac: "" };

/** Returns the file with the newest revision of a key file that was in use on this host. */
export function seenFileOf(keyFile: string): string {
  return `${keyFile}.seen`;
}

/** Returns the file with the newest state of a store. Earlier releases wrote another form to `<pepper>.seen`. */
export function newestFileOf(pepperFile: string): string {
  return `${pepperFile}.newest`;
}

/** Resolves to the recorded state; revision 0 if none was recorded. */
export async function readNewest(path: string): Promise<KeyState> {
  const text = (await readPrivateFile(path))?.toString("utf8").trim();
  const state = text === undefined ? NO_STATE : parseState(text);
  if (!state) throw new KeyStoreError("not_valid", `${path} should hold a revision of the keys`);
  return state;
}

/** Records a state in use, if it is newer than the recorded one, or `always`: the store has lost that one for good. */
export async function noteNewest(path: string, state: KeyState, always = false): Promise<void> {
  const note = async () => {
    if (always || state.revision > (await readNewest(path)).revision)
      await writePrivateFile(path, `${stateText(state)}\n`);
  };
  // Several gateways and commands of this host may write at the same time.
  await withFileLock(`${path}.lock`, note, AbortSignal.timeout(LOCK_WAIT_MS));
}

export function stateText({ revision, index, mac }: KeyState): string {
  return mac === "" ? `${revision}` : `${revision} ${index} ${mac}`;
}

export function parseState(text: string): KeyState | undefined {
  const [, revision, index = "0", mac = ""] = /^(\d{1,15})(?: (\d{1,15}) ([0-9a-f]{64}))?$/.exec(text) ?? [];
  return revision === undefined ? undefined : { revision: Number(revision), index: Number(index), mac };
}

/** Throws KeyStoreError `revision_went_back` if a key file is older than a revision that was in use. */
export function assertNotOlder(keyFile: string, revision: number, seen: number): void {
  if (revision >= seen) return;
  throw new KeyStoreError(
    "revision_went_back",
    `${keyFile} has revision ${revision}, and revision ${seen} was in use: put the newer file back, or have this one taken with 'keys restore --above ${seen}'`,
  );
}
