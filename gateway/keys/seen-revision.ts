import { readPrivateFile, writePrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { KeyStoreError } from "./key-store-error.ts";

/**
 * Returns the path of the file that holds the newest revision of a key file which a gateway has used. It lies beside the
 * key file, so that all gateways with this folder know it, also after a restart.
 */
export function seenFileOf(keyFile: string): string {
  return `${keyFile}.seen`;
}

/**
 * Resolves to the newest revision of a key file that was ever used; 0 where nobody has noted any, as in a new folder.
 * Throws what `isKeyStoreError` knows when that cannot be found out.
 */
export async function readSeenRevision(keyFile: string): Promise<number> {
  const path = seenFileOf(keyFile);
  const text = (await readPrivateFile(path))?.toString("utf8").trim() ?? "0";
  if (!/^\d{1,15}$/.test(text)) throw new KeyStoreError("not_valid", `${path} should hold the number of a revision`);
  return Number(text);
}

/** Notes that a revision is in use, where it is newer than the one that was. Throws what `isKeyStoreError` knows. */
export async function noteSeenRevision(keyFile: string, revision: number): Promise<void> {
  if (revision > (await readSeenRevision(keyFile))) await writePrivateFile(seenFileOf(keyFile), `${revision}\n`);
}

/**
 * Throws KeyStoreError `revision_went_back` where a key file is older than what was used before: keys that have been
 * revoked since would open again.
 */
export function assertNotOlder(keyFile: string, revision: number, seen: number): void {
  if (revision >= seen) return;
  throw new KeyStoreError(
    "revision_went_back",
    `${keyFile} has revision ${revision}, and revision ${seen} was in use: put the newer file back, or have this one taken with 'keys restore'`,
  );
}
