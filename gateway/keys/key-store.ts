import type { KeyRecord } from "./key-record.ts";
import type { KeyStoreFault } from "./key-store-error.ts";
import type { Principal } from "./principal.ts";

/** Records by what their operator made of them; one that is past its end is still `active` here. */
export type KeyCounts = Readonly<Record<KeyRecord["status"], number>>;

export type KeyStoreStatus = {
  /** Records in the set in use, whatever their status. */
  readonly keys: number;
  readonly counts: KeyCounts;
  /** Revision of the set in use. */
  readonly revision: number;
  /** When the set in use was loaded, in milliseconds since the epoch. */
  readonly loadedAtMs: number;
  /** Attempts to load a set that failed, since the store was opened. */
  readonly loadErrors: number;
  /** Why the newest set could not be taken over; undefined while the one in use is the newest. */
  readonly fault: KeyStoreFault | undefined;
};

/** Where the gateway finds keys. A change in the store takes effect within one second, without a restart. */
export interface KeyStore {
  /**
   * Who presents this key, or undefined when it is malformed, unknown, disabled, revoked or expired: the caller cannot
   * tell which, neither by the answer nor by its time. Takes text of any size and content; never throws, never waits.
   */
  find(presented: string): Principal | undefined;
  /** Whose record has this id, whatever its status; undefined: no key that this store takes. For operators. */
  byId(keyId: string): Principal | undefined;
  status(): KeyStoreStatus;
  /** Calls `listener`, which must not throw, after each change of `status()`. The returned function ends that. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void;
  /** Stops following the store; `find` goes on with the last set. */
  close(): void;
}
