import { FollowedFile } from "../../deploy/runtime/files/followed-file.ts";
import type { FileError } from "../../deploy/runtime/files/private-file.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { WorkSlices } from "../../deploy/runtime/time/work-slices.ts";
import type { Pepper } from "./key-digest.ts";
import { KeySetReader, olderFile, pepperFileOf, readKeyFile } from "./key-file.ts";
import { KeyTable } from "./key-index.ts";
import { isKeyStoreError, KeyStore, KeyStoreError } from "./key-store.ts";
import { noteNewest, readNewest, seenFileOf } from "./newest-state.ts";

/** Milliseconds after which a revision that the shared store did not take is offered to it again. */
const NOTE_AGAIN_MS = 10_000;

/** The newest revision of the file in use at any gateway, 0 for none. Its methods reject with `KeyStoreError`. */
type RevisionRecord = {
  read(pepper: Pepper): Promise<number>;
  note(pepper: Pepper, revision: number): Promise<void>;
};

/**
 * Keys from one JSON file, followed while it changes. An unusable file never removes keys: the last good set stays in
 * use, and `status()` gives the fault. A file is accepted or refused as a whole.
 */
export class FileKeyStore extends KeyStore {
  readonly #file: string;
  readonly #followed: FollowedFile;
  readonly #reader = new KeySetReader();
  readonly #shared: RevisionRecord | undefined;
  #cancelNote = () => {};

  private constructor(file: string, clock: Clock, shared: RevisionRecord | undefined) {
    super(clock, undefined);
    this.#file = file;
    this.#shared = shared;
    // The pepper is followed too: a set that did not fit the old pepper may fit the new one.
    this.#followed = new FollowedFile({
      files: [file, pepperFileOf(file)],
      clock,
      take: (signal, onRead) => this.#take(signal, onRead),
      onHang: () => this.#failed(new KeyStoreError("unreadable", `${file} cannot be read: the file system hangs`)),
    });
  }

  /**
   * Loads the file and follows it until `close`. Throws if the file is missing or unusable, or older than one that was
   * in use here or, with `shared`, at another gateway.
   */
  static async open(file: string, clock: Clock, shared?: RevisionRecord): Promise<FileKeyStore> {
    const store = new FileKeyStore(file, clock, shared);
    await store.#followed.look();
    if (store.failure === undefined) return store;
    await store.close();
    throw store.failure;
  }

  override close(): Promise<void> {
    this.#followed.close();
    this.#cancelNote();
    return super.close();
  }

  async #take(signal: AbortSignal, onRead: () => void): Promise<"taken" | "again"> {
    try {
      if (!(await this.#load(signal, onRead))) return "again";
      this.failure = undefined;
      this.note(() => noteNewest(seenFileOf(this.#file), { revision: this.revision, index: 0, mac: "" }));
      this.report();
      await this.noting;
    } catch (error) {
      if (signal.aborted) return "again";
      this.#failed(isKeyStoreError(error) ? error : new KeyStoreError("unreadable", String(error)));
    }
    return this.failure?.fault === "unreadable" ? "again" : "taken";
  }

  /** Puts the keys of the file into use. Resolves to false if the read was abandoned. */
  async #load(signal: AbortSignal, onRead: () => void): Promise<boolean> {
    const file = this.#file;
    const seen = await readNewest(seenFileOf(file));
    const loaded = await readKeyFile(file, this.#reader, onRead);
    if (signal.aborted) return false;
    if (loaded === undefined) throw new KeyStoreError("missing", `there is no key file at ${file}`);
    const { set, pepper } = loaded;
    // A running gateway compares with the other ones afterwards: no change waits for the shared store.
    const isStart = this.loadedAtMs === 0;
    const shared = isStart && pepper ? await this.#shared?.read(pepper).catch(() => 0) : 0;
    const older = olderFile(file, set.revision, Math.max(seen.revision, this.revision, shared ?? 0));
    if (older) throw older;
    // No command removes a record, so the file was truncated or placed there by mistake.
    if (set.keys.length === 0 && !this.table.records().next().done)
      throw new KeyStoreError("empty", `${file} holds no keys`);
    const table = new KeyTable(pepper);
    const slices = new WorkSlices();
    for (const record of set.keys) {
      if (slices.isOver) await slices.next();
      table.put(record, this.table);
    }
    if (signal.aborted || this.end.signal.aborted) return false;
    [this.table, this.revision, this.loadedAtMs] = [table, set.revision, this.clock.wallMs()];
    if (pepper) void this.#noteShared(pepper, set.revision);
    return true;
  }

  /** Records the revision in use for all gateways, as soon as the store answers. */
  async #noteShared(pepper: Pepper, revision: number): Promise<void> {
    this.#cancelNote();
    try {
      const newest = (await this.#shared?.read(pepper)) ?? 0;
      if (revision !== this.revision || this.end.signal.aborted) return;
      const older = olderFile(this.#file, revision, newest);
      if (older) this.#failed(older);
      if (revision > newest) await this.#shared?.note(pepper, revision);
    } catch (error) {
      if (error instanceof KeyStoreError && revision === this.revision && !this.end.signal.aborted)
        this.#cancelNote = this.clock.after(NOTE_AGAIN_MS, () => void this.#noteShared(pepper, revision));
    }
  }

  #failed(failure: KeyStoreError | FileError): void {
    const before = this.failure?.fault;
    this.loadErrors += 1;
    this.failure = failure;
    // Reported once, although an unreadable file is read again and again.
    if (failure.fault !== "unreadable" || before !== "unreadable") this.report();
  }
}
