import { Counter, Gauge, type Registry } from "prom-client";
import { FileError, type FileFault } from "../../deploy/runtime/files/private-file.ts";
import type { KeyRecord } from "./key-record.ts";
import type { Principal } from "./principal.ts";

/** Records by the status that their operator set; an expired record counts as `active`. */
export type KeyCounts = Readonly<Record<KeyRecord["status"], number>>;

export type KeyStoreStatus = {
  readonly keys: number;
  readonly counts: KeyCounts;
  readonly revision: number;
  /** When the set in use was loaded, in milliseconds since the epoch. */
  readonly loadedAtMs: number;
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
  mustEnd(keyId: string): boolean;
  status(): KeyStoreStatus;
  /** Calls `listener`, which must not throw, after each change of `status()`. The returned function unsubscribes. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void;
  /** Stops following the store; `find` continues with the last set. Resolves when all writes are done. */
  close(): Promise<void>;
}

/** Why stored keys cannot be used or changed: their files are unusable, or their contents do not fit. */
export type KeyStoreFault =
  | FileFault
  | "missing"
  | "unreachable"
  | "conflict"
  | "not_json"
  | "not_valid"
  | "empty"
  | "revision_went_back"
  | "store_replaced"
  | "not_signed"
  | "records_refused"
  | "pepper_missing"
  | "pepper_not_valid"
  | "pepper_mismatch";

/** Stored keys cannot be used or changed. The message names files and fields, never their contents. */
export class KeyStoreError extends Error {
  readonly fault: KeyStoreFault;

  constructor(fault: KeyStoreFault, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = "KeyStoreError";
    this.fault = fault;
  }
}

/** Returns whether `error` means that stored keys cannot be used or changed; any other error is a bug. */
export function isKeyStoreError(error: unknown): error is KeyStoreError | FileError {
  return error instanceof KeyStoreError || error instanceof FileError;
}

export function registerKeyStats(registry: Registry, status: () => KeyStoreStatus): void {
  const metric = (name: string, help: string, value: (status: KeyStoreStatus) => number) => {
    const collect = function (this: Counter | Gauge) {
      this.reset();
      this.inc(value(status()));
    };
    const options = { name, help, registers: [registry], collect };
    return name.endsWith("_total") ? new Counter(options) : new Gauge(options);
  };
  metric("svc_keystore_keys", "Key records in use, whatever their status.", ({ keys }) => keys);
  metric(
    "svc_keystore_last_success_timestamp_seconds",
    "Load time of the keys in use, in seconds since the epoch.",
    ({ loadedAtMs }) => loadedAtMs / 1000,
  );
  metric("svc_keystore_load_errors_total", "Failed attempts to load the newest keys.", ({ loadErrors }) => loadErrors);
  metric(
    "svc_keystore_went_back_total",
    "Returns of the shared key store without changes that were in use here.",
    ({ wentBack }) => wentBack,
  );
  metric(
    "svc_keystore_stale",
    "1 while some of the newest keys are unusable and earlier ones stay in force; else 0.",
    ({ fault }) => (fault ? 1 : 0),
  );
  metric(
    "svc_keystore_refused_records",
    "Refused key records of the shared store: not signed, or older than those in use.",
    ({ refused }) => refused.length,
  );
}
