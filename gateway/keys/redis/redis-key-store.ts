import { sleep } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { WorkTurns } from "../../../deploy/runtime/time/work-turns.ts";
import type { RedisState } from "../../state/redis-state.ts";
import type { Pepper } from "../key-digest.ts";
import { readPepper } from "../key-file.ts";
import { isKeyId } from "../key-format.ts";
import type { KeyRecord } from "../key-record.ts";
import { isKeyStoreError, KeyStore, KeyStoreError } from "../key-store.ts";
import type { KeyState } from "../newest-state.ts";
import { type History, revisionOf } from "./history.ts";
import { KeysReader, type Reading, wentBack } from "./keys-reader.ts";
import { KEYS_CHANNEL, type StoredHead, StoredKeys } from "./stored-keys.ts";

/** Milliseconds between two reads of the revision, for lost messages. */
const LOOK_MS = 500;
/** Milliseconds after which a refused or partly refused store is read again although it is unchanged. */
const AGAIN_MS = 60_000;
/** Milliseconds after which all records are read again although none was changed by a command. */
const REREAD_MS = 600_000;

export type RedisKeyStoreOptions = {
  readonly state: RedisState;
  readonly pepperFile: string;
  readonly clock: Clock;
};

/**
 * Keys in the store that gateways share. All records are kept in this process, so that a look-up needs no request to
 * the store; a change reads only the changed records. While the store is unreachable the records stay in force, and
 * `status()` reports it.
 * A store that went back is followed, so that later changes take effect, but no record is replaced by an older one that
 * may give more rights, and none is removed: those that the store lacks stay in use and count as refused, until they are
 * changed there again or an operator restores the keys. At the start such a store is refused.
 */
export class RedisKeyStore extends KeyStore {
  readonly #options: RedisKeyStoreOptions;
  readonly #stored: StoredKeys;
  readonly #reader: KeysReader;
  /** The state of the keys in use; undefined until they are loaded. */
  #history: History | undefined;
  /** A state whose changes the store has lost, until they were made again. */
  #lost: KeyState | undefined;
  /** Text of the stored head from which the keys in use, or a failure, resulted; null if there was none. */
  #lookedAt: string | null | undefined;
  /** From this time on the store is read again although it is unchanged. */
  #againMs = 0;
  #failure: KeyStoreError | undefined;
  #refused = new Set<string>();
  #toNote: (() => Promise<void>) | undefined;
  #fault: KeyStoreError["fault"] | undefined;
  #looking: Promise<unknown> = Promise.resolve();
  #cancelLook = () => {};
  /** Resolves when keys are loaded, or after `close`. Rejects if a store that was unreachable has unusable keys. */
  loaded = Promise.resolve();

  private constructor(options: RedisKeyStoreOptions, pepper: Pepper) {
    super(options.clock, pepper);
    this.#options = options;
    this.#stored = new StoredKeys(options.state);
    this.#reader = new KeysReader(options.state, pepper, options.pepperFile);
  }

  /**
   * Reads all records and follows their changes until `close`. Rejects if there are none or they cannot be used. If the
   * store does not answer, it is opened without keys: see `loaded`.
   */
  static async open(options: RedisKeyStoreOptions): Promise<RedisKeyStore> {
    const { pepperFile } = options;
    const pepper = await readPepper(pepperFile);
    if (pepper === undefined) throw new KeyStoreError("pepper_missing", `${pepperFile} is missing`);
    const store = new RedisKeyStore(options, pepper);
    if (!(await store.#begin())) store.loaded = store.#beginLater();
    // A rejection before the caller awaits `loaded` must not be unhandled.
    store.loaded.catch(() => {});
    return store;
  }

  override close(): Promise<void> {
    this.#cancelLook();
    return super.close();
  }

  protected override get fault() {
    return this.#fault;
  }

  protected override get refusedIds() {
    return [...this.#refused].map((id) => (isKeyId(id) ? id : "?"));
  }

  /** Reads all keys and follows them; resolves to false if the store does not answer. */
  async #begin(): Promise<boolean> {
    const failure = await this.#lookOnce();
    if (failure instanceof KeyStoreError && failure.fault === "unreachable") return false;
    if (failure !== undefined) throw failure;
    this.#options.state.subscribe(KEYS_CHANNEL, () => void this.#look());
    this.#lookLater();
    return true;
  }

  async #beginLater(): Promise<void> {
    do {
      await sleep(this.clock, LOOK_MS, this.end.signal);
      if (this.end.signal.aborted) return;
    } while (!(await this.#begin()));
  }

  #lookLater(): void {
    if (this.end.signal.aborted) return;
    this.#cancelLook = this.clock.after(LOOK_MS, () => void this.#look().then(() => this.#lookLater()));
  }

  /** Looks after the look under way, if there is one: that may have missed the newest change. */
  #look(): Promise<unknown> {
    this.#looking = this.#looking.then(() => (this.end.signal.aborted ? undefined : this.#lookOnce()));
    return this.#looking;
  }

  /** Reads new changes and reports them; resolves to the failure, if any. */
  async #lookOnce(): Promise<unknown> {
    const before = this.#fault;
    let isNew = false;
    let failure: unknown;
    try {
      isNew = await this.#catchUp();
      // Why some of the records in use differ from the store.
      this.#fault = this.#refused.size > 0 ? "records_refused" : undefined;
    } catch (error) {
      failure = error;
      this.loadErrors += 1;
      this.#fault = isKeyStoreError(error) ? error.fault : "unreadable";
    }
    if (isNew || this.#fault !== before) this.report();
    return failure;
  }

  async #catchUp(): Promise<boolean> {
    const stored = await this.#stored.head();
    const nowMs = this.clock.nowMs();
    const isSame = this.#lookedAt === (stored?.text ?? null);
    if (isSame && nowMs < this.#againMs) {
      if (this.#failure) throw this.#failure;
      return false;
    }
    this.#lookedAt = undefined;
    const before = this.#history;
    const isNew = await this.#readAndTake(stored, isSame).catch(async (error: unknown) => {
      if (!(error instanceof KeyStoreError) || error.fault === "unreachable") throw error;
      // Commands refuse to change keys in a store that a gateway does not follow.
      if (before) await this.#reader.noteLost(before);
      [this.#failure, this.#lookedAt, this.#againMs] = [error, stored?.text ?? null, nowMs + AGAIN_MS];
      throw error;
    });
    [this.#failure, this.#lookedAt] = [undefined, stored?.text ?? null];
    return isNew;
  }

  /** Resolves to whether the keys in use may have changed. */
  async #readAndTake(stored: StoredHead | undefined, isSame: boolean): Promise<boolean> {
    const before = this.#history;
    const refusedBefore = this.#refused.size;
    // In the slow reading a record that nothing has changed is verified, and not parsed again.
    const isKnown = (id: string, revision: number) => before?.revisions.get(id) === revision && !this.#refused.has(id);
    const reading =
      (stored && before && !isSame ? await this.#reader.since(before, stored) : undefined) ??
      (await this.#reader.whole(isSame && !this.#failure ? isKnown : undefined));
    const known = before ?? (await this.#reader.newest());
    if (!reading && known.revision === 0) throw new KeyStoreError("missing", "there are no keys in the store");
    if (!reading) throw wentBack(known, undefined);
    if (reading.isWhole && !(await this.#reader.continues(reading.history, known))) {
      if (!before) throw wentBack(known, reading.history.revision);
      await this.#reader.noteLost(known);
      if (!this.#lost || this.#lost.revision < known.revision) this.#lost = known;
      this.wentBack += 1;
    }
    await this.#take(reading);
    const againMs = this.clock.nowMs() + (this.#refused.size > 0 ? AGAIN_MS : REREAD_MS);
    // Changes do not put off the slow reading.
    this.#againMs = reading.isWhole ? againMs : Math.min(this.#againMs, againMs);
    this.#note(reading.history);
    return !isSame || this.#refused.size !== refusedBefore;
  }

  async #take({ history, isWhole, records, refused }: Reading): Promise<void> {
    const turns = new WorkTurns();
    const before = this.#history;
    const isOnPurpose = before !== undefined && history.restored > before.revision;
    if (isWhole) this.#refused = new Set(refused);
    for (const id of refused) this.#refused.add(id);
    if (isWhole)
      for (const { id } of this.table.records())
        if (!records.has(id) && !refused.has(id)) {
          if (isOnPurpose) this.table.remove(id);
          else this.#refused.add(id);
        }
    for (const [id, record] of records) {
      if (!record) continue;
      if (turns.isOver) await turns.next();
      const held = this.table.record(id);
      // A key that a restore has dropped does not come back with an older store.
      const isDropped = !held && before !== undefined && revisionOf(history, id) <= before.restored;
      if (!isOnPurpose && (isDropped || isOlder(held, record))) {
        this.#refused.add(id);
        continue;
      }
      this.table.put(record);
      this.#refused.delete(id);
    }
    this.#history = history;
    this.revision = history.revision;
    this.loadedAtMs = this.clock.wallMs();
  }

  /** Records the state in use for later starts and for commands. No operation waits for it: a file system may hang. */
  #note(history: History): void {
    if (this.#refused.size > 0 || this.end.signal.aborted) return;
    const lost = this.#lost;
    this.#lost = undefined;
    this.#toNote = () => this.#reader.noteInUse(history, lost);
    this.noting ??= this.#noteAll().finally(() => {
      this.noting = undefined;
    });
  }

  async #noteAll(): Promise<void> {
    for (let next = this.#toNote; next; next = this.#toNote) {
      this.#toNote = undefined;
      await next().catch(() => {});
    }
  }
}

/**
 * Returns whether an active record is older than the one in use: changes that it lacks may have removed rights or
 * secrets. A revocation is never undone, and a change that disabled the key takes precedence over another change of the
 * same revision.
 */
function isOlder(held: KeyRecord | undefined, next: KeyRecord): boolean {
  if (!held || next.status !== "active") return false;
  if (held.status === "active") return next.revision < held.revision;
  return held.status === "revoked" || next.revision <= held.revision;
}
