import type { KeyRecord } from "./key-record.ts";
import type { KeyStoreFault } from "./key-store-error.ts";
import type { Principal } from "./principal.ts";

/** Records by the status that their operator set; an expired record counts as `active`. */
export type KeyCounts = Readonly<Record<KeyRecord["status"], number>>;

/** The state of a key store, for operators. */
export type KeyStoreStatus = {
  /** Records in the set in use, whatever their status. */
  readonly keys: number;
  readonly counts: KeyCounts;
  readonly revision: number;
  /** When the set in use was loaded, in milliseconds since the epoch. */
  readonly loadedAtMs: number;
  /** Failed loads since the store was opened. */
  readonly loadErrors: number;
  /** Why the newest set was not loaded; undefined while the set in use is the newest. */
  readonly fault: KeyStoreFault | undefined;
  /**
   * Ids of refused records: they were not signed with the pepper, are not those of their newest change, or are older
   * than those in use. Their previous records stay in use.
   */
  readonly refused: readonly string[];
  /** How often the store returned without changes that were in use here. */
  readonly wentBack: number;
};

/** The source of keys. A change in the store takes effect within one second, without a restart. */
export interface KeyStore {
  /**
   * Returns the principal of a presented key; undefined if the key is malformed, unknown, disabled, revoked or expired.
   * Neither the result nor its timing reveals which. It takes text of any size and content, never throws and never
   * waits.
   */
  find(presented: string): Principal | undefined;
  /**
   * Returns the principal of the record with this id, whatever its status; undefined if this store has no such key. For
   * operators' requests; it never authenticates a request.
   */
  byId(keyId: string): Principal | undefined;
  /**
   * Returns the principal of the record with this id while it is in force: not disabled, revoked or expired. For
   * callers that are authenticated by other means, such as a token.
   */
  inForce(keyId: string): Principal | undefined;
  /** Returns whether running requests of the key have to end, because an operator ended it with `endRunning`. */
  mustEnd(keyId: string): boolean;
  status(): KeyStoreStatus;
  /** Calls `listener`, which must not throw, after each change of `status()`. The returned function unsubscribes. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void;
  /** Stops following the store; `find` continues with the last set. Resolves when all writes are done. */
  close(): Promise<void>;
}
