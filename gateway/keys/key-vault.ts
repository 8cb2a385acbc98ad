import type { KeyFile, KeySetChanger } from "./key-file.ts";
import type { KeySet } from "./key-record.ts";

/** All keys, and what is amiss with them beside that: texts for people, empty where all is well. */
export type VaultKeys = KeyFile & { readonly amiss: readonly string[] };

/** Where the keys stand that operators change: a file, or the store that gateways share. */
export type KeyVault = {
  /** What the keys are called in messages, such as the path of the file. */
  readonly name: string;
  /** Whether the keys stand in a file, whose path the name is. */
  readonly isFile: boolean;
  /** What their audit log is called in messages. */
  readonly auditName: string;
  /** The path of the pepper. */
  readonly pepperFile: string;
  /** Reads all keys. Rejects with what `isKeyStoreError` knows, with the fault `missing` where there are none. */
  read(): Promise<VaultKeys>;
  /**
   * Changes keys, and says so in their audit log. With `create` a missing store and pepper are made. Rejects with what
   * `isKeyStoreError` knows, and with whatever `change` throws; nothing is changed then.
   */
  update<T>(create: boolean, change: KeySetChanger<T>): Promise<T>;
  /**
   * Puts keys in force on purpose that gateways would refuse, as older than what they have: those of the file `from`, or
   * of the store as it stands, without those that are refused; with `unverified` all of them, signed or not. Rejects with
   * what `isKeyStoreError` knows.
   */
  restore(from: string | undefined, unverified: boolean): Promise<KeySet>;
  /** Reads the text of the audit log; undefined where there is none. */
  readAudit(): Promise<Buffer | undefined>;
  /** Lets go of the store. */
  close(): void;
};
