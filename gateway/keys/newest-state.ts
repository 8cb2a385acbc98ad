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

/** Returns the file with the newest revision of a key file that was in use on this host. */
export function seenFileOf(keyFile: string): string {
  return `${keyFile}.seen`;
}

/** Returns the file with the newest state of a store that was in use on this host. */
export function newestFileOf(pepperFile: string): string {
  return `${pepperFile}.newest`;
}

/** Resolves to the recorded state; revision 0 if none was recorded. */
export async function readNewest(path: string): Promise<KeyState> {
  const text = (await readPrivateFile(path))?.toString("utf8").trim() ?? "0";
  const [, revision, index = "0", mac = ""] = /^(\d{1,15})(?: (\d{1,15}) ([0-9a-f]{64}))?$/.exec(text) ?? [];
  if (revision === undefined) throw new KeyStoreError("not_valid", `${path} should hold a revision of the keys`);
  return { revision: Number(revision), index: Number(index), mac };
}

/** Records a state in use, if it is newer than the recorded one. */
export async function noteNewest(path: string, { revision, index, mac }: KeyState): Promise<void> {
  const note = async () => {
    if (revision > (await readNewest(path)).revision)
      await writePrivateFile(path, `${[revision, ...(mac === "" ? [] : [index, mac])].join(" ")}\n`);
  };
  // Several gateways and commands of this host may write at the same time.
  await withFileLock(`${path}.lock`, note, AbortSignal.timeout(LOCK_WAIT_MS));
}
