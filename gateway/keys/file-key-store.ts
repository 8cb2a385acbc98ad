import type { FileError } from "../../deploy/runtime/files/file-error.ts";
import { FollowedFile, type LookProgress } from "../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type KeyFile, KeySetReader, pepperFileOf, readKeyFile } from "./key-file.ts";
import type { KeyEnv } from "./key-format.ts";
import { indexKeys, type KeyTable, reindexKeys } from "./key-index.ts";
import { EMPTY_KEY_SET, type KeySet } from "./key-record.ts";
import type { KeyCounts, KeyStore, KeyStoreStatus } from "./key-store.ts";
import { isKeyStoreError, KeyStoreError } from "./key-store-error.ts";
import type { Principal } from "./principal.ts";
import { assertNotOlder, noteSeenRevision, readSeenRevision } from "./seen-revision.ts";

/** Longest wait of `close` for the file system, in milliseconds. */
const CLOSE_MS = 1_000;

export type FileKeyStoreOptions = {
  /** Path of the key file; the pepper stands beside it. */
  readonly file: string;
  /** Clock of key expiry and of file polls. */
  readonly clock: Clock;
  /** The accepted kind of keys; keys of the other kind are unknown. Default: "live". */
  readonly env?: KeyEnv;
  /**
   * Called once, with the reason, if the revision in use cannot be recorded beside the key file: after a restart, an
   * older file would be accepted.
   */
  readonly onForgetful?: (why: string) => void;
};

function assertNotEmptied(file: string, next: KeySet, current: KeySet): void {
  // No command removes a record, so the file was truncated or placed there by mistake.
  if (next.keys.length === 0 && current.keys.length > 0) throw new KeyStoreError("empty", `${file} holds no keys`);
}

function countKeys({ keys }: KeySet): KeyCounts {
  const counts = { active: 0, disabled: 0, revoked: 0 };
  for (const { status } of keys) counts[status] += 1;
  return counts;
}

/**
 * Keys from one JSON file, followed while it changes. An unusable file never removes keys: the last good set stays in
 * use, and `status()` gives the fault.
 */
export class FileKeyStore implements KeyStore {
  readonly #options: FileKeyStoreOptions;
  readonly #env: KeyEnv;
  readonly #followed: FollowedFile;
  readonly #reader = new KeySetReader();
  readonly #listeners = new Set<(status: KeyStoreStatus) => void>();
  #set: KeySet = EMPTY_KEY_SET;
  #counts = countKeys(EMPTY_KEY_SET);
  #index: KeyTable;
  #loadedAtMs = 0;
  #failure: KeyStoreError | FileError | undefined;
  #loadErrors = 0;
  #closed = false;
  #forgetful = false;
  #noting: Promise<void> | undefined;

  private constructor(options: FileKeyStoreOptions) {
    this.#options = options;
    this.#env = options.env ?? "live";
    this.#index = indexKeys(EMPTY_KEY_SET, undefined, this.#env);
    const { file, clock } = options;
    // The pepper is followed too: a set that did not fit the old pepper may fit the new one.
    this.#followed = new FollowedFile({
      files: [file, pepperFileOf(file)],
      clock,
      take: (signal, progress) => this.#take(signal, progress),
      onHang: () => this.#failed(new KeyStoreError("unreadable", `${file} cannot be read: the file system hangs`)),
    });
  }

  /**
   * Loads the file and follows it until `close`. Throws an error that `isKeyStoreError` accepts if the file is missing
   * or unusable.
   */
  static async open(options: FileKeyStoreOptions): Promise<FileKeyStore> {
    const store = new FileKeyStore(options);
    await store.#followed.look();
    if (store.#failure === undefined) return store;
    await store.close();
    throw store.#failure;
  }

  find(presented: string): Principal | undefined {
    const found = this.#index.look(presented, this.#options.clock.wallMs());
    return "principal" in found ? found.principal : undefined;
  }

  byId(keyId: string): Principal | undefined {
    return this.#index.byId(keyId);
  }

  inForce(keyId: string): Principal | undefined {
    return this.#index.inForce(keyId, this.#options.clock.wallMs());
  }

  mustEnd(keyId: string): boolean {
    return this.#index.mustEnd(keyId);
  }

  status(): KeyStoreStatus {
    return {
      keys: this.#set.keys.length,
      counts: this.#counts,
      revision: this.#set.revision,
      loadedAtMs: this.#loadedAtMs,
      loadErrors: this.#loadErrors,
      fault: this.#failure?.fault,
      // A file is accepted or refused as a whole.
      ...{ refused: [], wentBack: 0 },
    };
  }

  /**
   * Calls `listener` after each load, and once when the files become unreadable. Returns a function that unsubscribes.
   */
  onChange(listener: (status: KeyStoreStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Stops following the files and removes all listeners; `find` continues with the last set. Resolves when the revision
   * in use is recorded, or after a second, because a file system may hang.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#listeners.clear();
    this.#followed.close();
    if (!this.#noting) return;
    let cancel = () => {};
    const late = new Promise<void>((resolve) => {
      cancel = this.#options.clock.after(CLOSE_MS, resolve);
    });
    await Promise.race([this.#noting.catch(() => {}), late]);
    cancel();
  }

  async #take(signal: AbortSignal, progress: LookProgress): Promise<"taken" | "again"> {
    try {
      const { file } = this.#options;
      const seen = await readSeenRevision(file);
      const loaded = await readKeyFile(file, this.#reader, progress);
      if (signal.aborted) return "again";
      const { set, index } = await this.#usable(loaded, seen);
      if (signal.aborted || this.#closed) return "again";
      this.#use(set, index);
      this.#failure = undefined;
      this.#noting = this.#note();
      this.#tell();
      await this.#noting.finally(() => {
        this.#noting = undefined;
      });
    } catch (error) {
      if (signal.aborted) return "again";
      this.#failed(isKeyStoreError(error) ? error : new KeyStoreError("unreadable", String(error)));
    }
    return this.#failure?.fault === "unreadable" ? "again" : "taken";
  }

  #failed(failure: KeyStoreError | FileError): void {
    const before = this.#failure?.fault;
    this.#loadErrors += 1;
    this.#failure = failure;
    // Reported once, although an unreadable file is read again and again.
    if (failure.fault !== "unreadable" || before !== "unreadable") this.#tell();
  }

  #tell(): void {
    if (this.#closed) return;
    const status = this.status();
    for (const listener of this.#listeners) listener(status);
  }

  /**
   * Records the revision in use. Keys are in force without the record, for example if their folder is mounted
   * read-only.
   */
  async #note(): Promise<void> {
    try {
      await noteSeenRevision(this.#options.file, this.#set.revision);
    } catch (error) {
      if (!isKeyStoreError(error)) throw error;
      if (!this.#forgetful) this.#options.onForgetful?.(error.message);
      this.#forgetful = true;
    }
  }

  async #usable(loaded: KeyFile | undefined, seen: number): Promise<{ set: KeySet; index: KeyTable }> {
    const { file } = this.#options;
    if (loaded === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
    const { set, pepper } = loaded;
    assertNotOlder(file, set.revision, Math.max(seen, this.#set.revision));
    assertNotEmptied(file, set, this.#set);
    return { set, index: await reindexKeys(set, pepper, this.#env, this.#index) };
  }

  #use(set: KeySet, index: KeyTable): void {
    this.#index = index;
    this.#set = set;
    this.#counts = countKeys(set);
    this.#loadedAtMs = this.#options.clock.wallMs();
  }
}
