import type { KeyRecord } from "./key-record.ts";
import type { KeyStoreFault } from "./key-store-error.ts";
import type { Principal } from "./principal.ts";

/**
 * The number of records by the status that their operator gave them; a record that is past its end still counts as
 * `active`.
 */
export type KeyCounts = Readonly<Record<KeyRecord["status"], number>>;

/** What a key store tells operators about itself. */
export type KeyStoreStatus = {
  /** The number of records in the set in use, whatever their status. */
  readonly keys: number;
  /** The number of records in the set in use, by status. */
  readonly counts: KeyCounts;
  /** The revision of the set in use. */
  readonly revision: number;
  /** The time at which the set in use was loaded, in milliseconds since the epoch. */
  readonly loadedAtMs: number;
  /** The number of failed attempts to load a set since the store was opened. */
  readonly loadErrors: number;
  /** Why the newest set could not be taken over; undefined while the one in use is the newest. */
  readonly fault: KeyStoreFault | undefined;
  /**
   * The ids of records that are not taken: those of before stay, where there are any. They were not signed with the
   * pepper, are not those of their newest change, or are older than those in use.
   */
  readonly refused: readonly string[];
  /** The number of times that the store came back without changes which were in use here. */
  readonly wentBack: number;
};

/** Where the gateway finds keys. A change in the store takes effect within one second, without a restart. */
export interface KeyStore {
  /**
   * Returns who presents this key; undefined when the key is malformed, unknown, disabled, revoked or expired. The
   * caller cannot tell which, neither by the answer nor by its time. It takes text of any size and content, never
   * throws and never waits.
   */
  find(presented: string): Principal | undefined;
  /**
   * Returns whose record has this id, whatever its status; undefined where this store takes no such key. It serves
   * operators' questions and never authenticates a request.
   */
  byId(keyId: string): Principal | undefined;
  /**
   * Returns whose record has this id while it is in force: neither disabled nor revoked nor expired. For whoever has
   * proved by other means that the record's rights are theirs.
   */
  inForce(keyId: string): Principal | undefined;
  /** Returns whether what runs for the key with this id has to end, as an operator ended the key with that wish. */
  mustEnd(keyId: string): boolean;
  /** Returns the state of the store. */
  status(): KeyStoreStatus;
  /** Calls `listener`, which must not throw, after each change of `status()`. The returned function ends that. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void;
  /** Stops following the store; `find` goes on with the last set. Resolves when nothing is written any more. */
  close(): Promise<void>;
}
