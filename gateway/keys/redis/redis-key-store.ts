import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { sleep } from "../../../deploy/runtime/time/sleep.ts";
import type { RedisState } from "../../state/redis-state.ts";
import type { Pepper } from "../key-digest.ts";
import { readPepper } from "../key-file.ts";
import type { KeyEnv } from "../key-format.ts";
import { KeyTable } from "../key-index.ts";
import type { KeyRecord } from "../key-record.ts";
import type { KeyCounts, KeyStore, KeyStoreStatus } from "../key-store.ts";
import { isKeyStoreError, KeyStoreError } from "../key-store-error.ts";
import type { Principal } from "../principal.ts";
import { KEYS_CHANNEL, StoredKeys } from "./stored-keys.ts";

/**
 * The time between two looks at the revision, in milliseconds: half of the second that a change may take, for those
 * whose message was lost.
 */
const LOOK_MS = 500;

/** What a key store in Redis works with. */
export type RedisKeyStoreOptions = {
  /** The connection to the store. */
  readonly state: RedisState;
  /** The path of the pepper. */
  readonly pepperFile: string;
  /** The clock by which keys expire and the store is looked at. */
  readonly clock: Clock;
  /** The kind of keys that are taken; keys of the other kind are unknown. Default: "live". */
  readonly env?: KeyEnv;
};

/**
 * Keys in the store that gateways share. All records are kept in this process, so that a key is looked up without a
 * question to the store; of a change only what has changed is read. While the store is away the records stay in force,
 * and `status()` says so.
 */
export class RedisKeyStore implements KeyStore {
  readonly #options: RedisKeyStoreOptions;
  readonly #stored: StoredKeys;
  readonly #listeners = new Set<(status: KeyStoreStatus) => void>();
  readonly #statuses = new Map<string, KeyRecord["status"]>();
  readonly #pepper: Pepper;
  readonly #table: KeyTable;
  #revision = 0;
  #loadedAtMs = 0;
  #loadErrors = 0;
  #fault: KeyStoreError["fault"] | undefined;
  #looking: Promise<void> | undefined;
  #askedAgain = false;
  #cancelLook = () => {};
  #loaded = Promise.resolve();
  readonly #end = new AbortController();

  private constructor(options: RedisKeyStoreOptions, pepper: Pepper) {
    this.#options = options;
    this.#pepper = pepper;
    this.#stored = new StoredKeys(options.state);
    this.#table = new KeyTable(pepper, options.env ?? "live");
  }

  /**
   * Reads all records and follows their changes until `close`. Throws what `isKeyStoreError` knows when there are none,
   * or they cannot be used. Where the store does not answer it is opened without keys: see `loaded`.
   */
  static async open(options: RedisKeyStoreOptions): Promise<RedisKeyStore> {
    const { pepperFile } = options;
    const pepper = await readPepper(pepperFile);
    if (pepper === undefined) throw new KeyStoreError("pepper_missing", `${pepperFile} is missing`);
    const store = new RedisKeyStore(options, pepper);
    if (!(await store.#begin())) store.#loaded = store.#beginLater();
    // Whoever opens a store may have other things to do before it waits for the keys.
    store.#loaded.catch(() => {});
    return store;
  }

  /**
   * Resolves when there are keys: at once, but where the store was away when it was opened. Rejects with what
   * `isKeyStoreError` knows when it is back and its keys cannot be used. It resolves after `close`, too.
   */
  get loaded(): Promise<void> {
    return this.#loaded;
  }

  /** Returns who presents this key by the clock's time now; undefined for every key that does not work. */
  find(presented: string): Principal | undefined {
    const found = this.#table.look(presented, this.#options.clock.wallMs());
    return "principal" in found ? found.principal : undefined;
  }

  /** Returns whose record has this id, whatever its status; undefined where none has. */
  byId(keyId: string): Principal | undefined {
    return this.#table.byId(keyId);
  }

  /** Returns whose record has this id, where it is in force by the clock's time now. */
  inForce(keyId: string): Principal | undefined {
    return this.#table.inForce(keyId, this.#options.clock.wallMs());
  }

  /** Returns whether what runs for the key with this id has to end. */
  mustEnd(keyId: string): boolean {
    return this.#table.mustEnd(keyId);
  }

  /** Returns the state of the records in use, and why newer ones could not be read. */
  status(): KeyStoreStatus {
    const counts = { active: 0, disabled: 0, revoked: 0 };
    for (const status of this.#statuses.values()) counts[status] += 1;
    return {
      ...{ keys: this.#statuses.size, counts: counts satisfies KeyCounts, revision: this.#revision },
      ...{ loadedAtMs: this.#loadedAtMs, loadErrors: this.#loadErrors, fault: this.#fault },
    };
  }

  /** Calls `listener` after each change that was taken over, and once when the store cannot be read. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stops following the store and forgets all listeners; `find` goes on with the last records. */
  async close(): Promise<void> {
    this.#end.abort();
    this.#listeners.clear();
    this.#cancelLook();
  }

  /** Reads all records and follows their changes from then on. Resolves to whether the store answered. */
  async #begin(): Promise<boolean> {
    const before = this.#fault;
    try {
      await this.#load();
    } catch (error) {
      if (!(error instanceof KeyStoreError) || error.fault !== "unreachable") throw error;
      this.#loadErrors += 1;
      this.#fault = error.fault;
      return false;
    }
    this.#fault = undefined;
    if (before !== undefined) this.#tell();
    this.#options.state.subscribe(KEYS_CHANNEL, () => void this.#look());
    this.#lookLater();
    return true;
  }

  async #beginLater(): Promise<void> {
    const { clock } = this.#options;
    do {
      await sleep(clock, LOOK_MS, this.#end.signal);
      if (this.#end.signal.aborted) return;
    } while (!(await this.#begin()));
  }

  async #load(): Promise<void> {
    const { revision, pepperId } = await this.#stored.head();
    if (revision === 0) throw new KeyStoreError("missing", "there are no keys in the store");
    this.#assertPepper(pepperId);
    for await (const record of this.#stored.all()) this.#take(record);
    this.#revision = revision;
    this.#loadedAtMs = this.#options.clock.wallMs();
    // What has changed meanwhile may have been read as it was before.
    await this.#catchUp();
  }

  #assertPepper(pepperId: string | undefined): void {
    if (pepperId !== this.#pepper.id)
      throw new KeyStoreError(
        "pepper_mismatch",
        `${this.#options.pepperFile} is not the pepper that the stored keys were made with`,
      );
  }

  #take(record: KeyRecord): void {
    this.#table.put(record);
    this.#statuses.set(record.id, record.status);
  }

  #lookLater(): void {
    if (this.#end.signal.aborted) return;
    this.#cancelLook = this.#options.clock.after(LOOK_MS, () => void this.#look().then(() => this.#lookLater()));
  }

  /** Takes over what has changed. Never rejects; a look that was asked for amid another one follows it. */
  #look(): Promise<void> {
    this.#askedAgain = this.#looking !== undefined;
    this.#looking ??= this.#lookUntilSame().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookUntilSame(): Promise<void> {
    do {
      this.#askedAgain = false;
      await this.#lookOnce();
    } while (this.#askedAgain && !this.#end.signal.aborted);
  }

  async #lookOnce(): Promise<void> {
    const before = this.#fault;
    try {
      const isNew = await this.#catchUp();
      this.#fault = undefined;
      if (isNew || before !== undefined) this.#tell();
    } catch (error) {
      this.#loadErrors += 1;
      this.#fault = isKeyStoreError(error) ? error.fault : "unreadable";
      if (this.#fault !== before) this.#tell();
    }
  }

  /** Reads the records that have changed. Resolves to whether there were any. */
  async #catchUp(): Promise<boolean> {
    const { revision, pepperId } = await this.#stored.head();
    if (revision === this.#revision) return false;
    if (revision < this.#revision)
      throw new KeyStoreError("revision_went_back", "the store of keys is older than the keys in use");
    this.#assertPepper(pepperId);
    for await (const record of this.#stored.changedSince(this.#revision)) this.#take(record);
    this.#revision = revision;
    this.#loadedAtMs = this.#options.clock.wallMs();
    return true;
  }

  #tell(): void {
    if (this.#end.signal.aborted) return;
    const status = this.status();
    for (const listener of this.#listeners) listener(status);
  }
}
