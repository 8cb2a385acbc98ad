import { readPrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { auditFileOf } from "./audit-log.ts";
import { pepperFileOf, readKeyFile, restoreKeyFile, updateKeyFile } from "./key-file.ts";
import { isKeyStoreError, KeyStoreError } from "./key-store-error.ts";
import type { KeyVault } from "./key-vault.ts";
import { assertNotOlder, readSeenRevision } from "./seen-revision.ts";

/** Milliseconds that a change waits for another change to finish. */
const LOCK_WAIT_MS = 5_000;

export function fileKeyVault(file: string): KeyVault {
  return {
    ...{ name: file, isFile: true, auditName: auditFileOf(file), pepperFile: pepperFileOf(file) },
    async read() {
      const found = await readKeyFile(file);
      if (found === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
      return { ...found, amiss: await amissOf(file, found.set.revision) };
    },
    update: (create, change) => updateKeyFile(file, create, change, AbortSignal.timeout(LOCK_WAIT_MS)),
    restore: (from = file) => restoreKeyFile(file, from, AbortSignal.timeout(LOCK_WAIT_MS)),
    readAudit: () => readPrivateFile(auditFileOf(file)),
    close() {},
  };
}

async function amissOf(file: string, revision: number): Promise<readonly string[]> {
  try {
    assertNotOlder(file, revision, await readSeenRevision(file));
    return [];
  } catch (error) {
    if (!isKeyStoreError(error)) throw error;
    return [error.message];
  }
}
