import { readPrivateFile } from "../../deploy/runtime/files/private-file.ts";
import { auditFileOf } from "./audit-log.ts";
import {
  type KeyFile,
  type KeySetChanger,
  pepperFileOf,
  readKeyFile,
  restoreKeyFile,
  updateKeyFile,
} from "./key-file.ts";
import type { KeySet } from "./key-record.ts";
import { isKeyStoreError, KeyStoreError } from "./key-store.ts";
import { assertNotOlder, readNewest, seenFileOf } from "./newest-state.ts";

export type VaultKeys = KeyFile & { readonly amiss: readonly string[] };

/** The records that a command needs: those of these ids, and one of this owner. */
export type KeyScope = { readonly ids: readonly string[]; readonly owner?: string | null };

/** The writable keys of operators: a file, or the store that gateways share. */
export type KeyVault = {
  readonly name: string;
  readonly isFile: boolean;
  readonly auditName: string;
  readonly pepperFile: string;
  /**
   * Reads the keys, or those of the scope and perhaps more.
   * All methods reject with an error that `isKeyStoreError` accepts; its fault is `missing` if there are no keys.
   */
  read(scope?: KeyScope): Promise<VaultKeys>;
  /**
   * Changes keys and logs the change. The set that is changed has the records of the scope, and may have more. With
   * `create` a missing store and pepper are created.
   */
  update<T>(create: boolean, scope: KeyScope, change: KeySetChanger<T>): Promise<T>;
  /**
   * Puts keys in force that gateways would refuse because they are older: those of the file `from`, or those in the
   * store, without refused records. Their revision will be greater than `above`.
   */
  restore(from: string | undefined, above: number): Promise<KeySet>;
  readAudit(): Promise<Buffer | undefined>;
  close(): void;
};

/** Milliseconds that a change waits for another one to finish. */
export const LOCK_WAIT_MS = 5_000;

export function fileKeyVault(file: string): KeyVault {
  return {
    ...{ name: file, isFile: true, auditName: auditFileOf(file), pepperFile: pepperFileOf(file) },
    async read() {
      const found = await readKeyFile(file);
      if (found === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
      return { ...found, amiss: await amissOf(file, found.set.revision) };
    },
    update: (create, _scope, change) => updateKeyFile(file, create, change, AbortSignal.timeout(LOCK_WAIT_MS)),
    restore: (from = file, above) => restoreKeyFile(file, from, above, AbortSignal.timeout(LOCK_WAIT_MS)),
    readAudit: () => readPrivateFile(auditFileOf(file)),
    close() {},
  };
}

async function amissOf(file: string, revision: number): Promise<readonly string[]> {
  try {
    assertNotOlder(file, revision, (await readNewest(seenFileOf(file))).revision);
    return [];
  } catch (error) {
    if (!isKeyStoreError(error)) throw error;
    return [error.message];
  }
}
