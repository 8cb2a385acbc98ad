import { readPrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { auditFileOf } from "./audit-log.ts";
import { pepperFileOf, readKeyFile, updateKeyFile } from "./key-file.ts";
import { KeyStoreError } from "./key-store-error.ts";
import type { KeyVault } from "./key-vault.ts";

/** The time that a change waits for another one to finish, in milliseconds. */
const LOCK_WAIT_MS = 5_000;

/** Makes the vault of the keys in a file. */
export function fileKeyVault(file: string): KeyVault {
  return {
    ...{ name: file, isFile: true, auditName: auditFileOf(file), pepperFile: pepperFileOf(file) },
    async read() {
      const found = await readKeyFile(file);
      if (found === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
      return found;
    },
    update: (create, change) => updateKeyFile(file, create, change, AbortSignal.timeout(LOCK_WAIT_MS)),
    readAudit: () => readPrivateFile(auditFileOf(file)),
    close() {},
  };
}
