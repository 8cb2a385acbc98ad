import { FileError, type FileFault } from "../../deploy/runtime/files/private-file.ts";
import { sleep } from "../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { Pepper } from "./key-digest.ts";
import { KeyTable } from "./key-index.ts";
import type { KeyRecord } from "./key-record.ts";
import type { Principal } from "./principal.ts";

export type KeyStoreStatus = {
  readonly keys: number;
  /** Records by the status that their operator set; an expired record counts as `active`. */
  readonly counts: Readonly<Record<KeyRecord["status"], number>>;
  readonly revision: number;
  /** When the set in use was loaded, in milliseconds since the epoch. */
  readonly loadedAtMs: number;
  readonly loadErrors: number;
  /** Why the newest set was not loaded; undefined while the set in use is the newest. */
  readonly fault: KeyStoreFault | undefined;
  /**
   * Ids of refused records: they are missing, or not those of their newest change. Their previous records stay in use.
   */
  readonly refused: readonly string[];
  /** How often the store returned without changes that were in use here. */
  readonly wentBack: number;
};

const CLOSE_MS = 1_000;

/**
 * The keys of a store that is followed: a change takes effect within one second, without a restart. All records are kept
 * in this process, so that a look-up needs no request.
 */
export abstract class KeyStore {
  protected readonly clock: Clock;
  protected table: KeyTable;
  protected revision = 0;
  protected loadedAtMs = 0;
  protected loadErrors = 0;
  protected wentBack = 0;
  /** Why the newest keys were not loaded; undefined while those in use are the newest. */
  protected failure: KeyStoreError | FileError | undefined;
  protected readonly end = new AbortController();
  protected noting: Promise<void> | undefined;
  readonly #listeners = new Set<(status: KeyStoreStatus) => void>();

  protected constructor(clock: Clock, pepper: Pepper | undefined) {
    this.clock = clock;
    this.table = new KeyTable(pepper);
  }

  protected get refusedIds(): readonly string[] {
    return [];
  }

  /**
   * Returns the principal of a presented key; undefined if the key is malformed, unknown, disabled, revoked or expired.
   * Neither the result nor its timing reveals which. It takes text of any size and content, never throws and never
   * waits.
   */
  find(presented: string): Principal | undefined {
    const found = this.table.look(presented, this.clock.wallMs());
    return "principal" in found ? found.principal : undefined;
  }

  /** Returns the principal of a record, whatever its status. For operators' requests; it never authenticates one. */
  byId(keyId: string): Principal | undefined {
    return this.table.byId(keyId);
  }

  /** Returns the principal of a record in force. For callers that are authenticated by other means, such as a token. */
  inForce(keyId: string): Principal | undefined {
    return this.table.inForce(keyId, this.clock.wallMs());
  }

  mustEnd(keyId: string): boolean {
    return this.table.mustEnd(keyId);
  }

  status(): KeyStoreStatus {
    const counts = { ...this.table.counts };
    const { revision, loadedAtMs, loadErrors, refusedIds: refused, wentBack } = this;
    const fault = this.failure?.fault ?? (refused.length > 0 ? "records_refused" : undefined);
    const keys = counts.active + counts.disabled + counts.revoked;
    return { keys, counts, revision, loadedAtMs, loadErrors, fault, refused, wentBack };
  }

  /** Calls `listener`, which must not throw, after each change of `status()`. The returned function unsubscribes. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Resolves when the state in use is recorded, or after a second, because a file system may hang. */
  async close(): Promise<void> {
    this.end.abort();
    this.#listeners.clear();
    if (!this.noting) return;
    const noted = new AbortController();
    await Promise.race([this.noting, sleep(this.clock, CLOSE_MS, noted.signal)]);
    noted.abort();
  }

  /** Records the state in use, unless a state is being recorded. Keys are in force without the record, too. */
  protected note(record: () => Promise<void>): void {
    this.noting ??= record()
      .catch(() => {})
      .finally(() => {
        this.noting = undefined;
      });
  }

  protected report(): void {
    if (this.end.signal.aborted || this.#listeners.size === 0) return;
    const status = this.status();
    for (const listener of this.#listeners) listener(status);
  }
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

export function changedMeanwhile(): KeyStoreError {
  return new KeyStoreError("conflict", "others change keys all the time; try again");
}

/** Returns whether `error` means that stored keys cannot be used or changed; any other error is a bug. */
export function isKeyStoreError(error: unknown): error is KeyStoreError | FileError {
  return error instanceof KeyStoreError || error instanceof FileError;
}
