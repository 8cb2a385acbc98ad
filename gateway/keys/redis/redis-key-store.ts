import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { sleep } from "../../../deploy/runtime/time/sleep.ts";
import { WorkTurns } from "../../../deploy/runtime/time/work-turns.ts";
import type { RedisState } from "../../state/redis-state.ts";
import type { Pepper } from "../key-digest.ts";
import { readPepper } from "../key-file.ts";
import { isKeyId, type KeyEnv } from "../key-format.ts";
import { KeyTable } from "../key-index.ts";
import type { KeyRecord } from "../key-record.ts";
import type { KeyCounts, KeyStore, KeyStoreStatus } from "../key-store.ts";
import { isKeyStoreError, KeyStoreError } from "../key-store-error.ts";
import type { Principal } from "../principal.ts";
import { knownHeads, noteSeenHead, readSeenHead, type SeenHead } from "../seen-revision.ts";
import { assertFollows, KeysReader, type ReadHead, type Reading } from "./keys-reader.ts";
import { KEYS_CHANNEL, type StoredHead, StoredKeys } from "./stored-keys.ts";

/**
 * The time between two looks at the revision, in milliseconds: half of the second that a change may take, for those
 * whose message was lost.
 */
const LOOK_MS = 500;
/** The time after which a store that was refused, as a whole or in part, is read anew unchanged, in milliseconds. */
const AGAIN_MS = 60_000;
/** The longest time, in milliseconds, for which the end of a store waits for the file system. */
const CLOSE_MS = 1_000;

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
 *
 * A store that has lost changes is followed, so that later changes count, but no record is replaced by an older one that
 * may give more rights. Another store, and an older one at the start, is refused until an operator restores it.
 */
export class RedisKeyStore implements KeyStore {
  readonly #options: RedisKeyStoreOptions;
  readonly #stored: StoredKeys;
  readonly #listeners = new Set<(status: KeyStoreStatus) => void>();
  /** The records in use. */
  readonly #records = new Map<string, KeyRecord>();
  readonly #reader: KeysReader;
  readonly #table: KeyTable;
  #head: ReadHead | undefined;
  /** The text of the head that stood in the store when the keys in use, or a failure, came of it; null for none. */
  #lookedAt: string | null | undefined;
  /** The time from which on what stands in the store is read again, although it has not changed. */
  #againMs = 0;
  #failure: KeyStoreError | undefined;
  #refused = new Set<string>();
  #toNote: { readonly head: SeenHead; readonly isForked: boolean } | undefined;
  #noting: Promise<void> | undefined;
  #wentBack = 0;
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
    this.#stored = new StoredKeys(options.state);
    this.#reader = new KeysReader(this.#stored, pepper, options.pepperFile);
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
    for (const { status } of this.#records.values()) counts[status] += 1;
    return {
      ...{ keys: this.#records.size, counts: counts satisfies KeyCounts, revision: this.#head?.revision ?? 0 },
      ...{ loadedAtMs: this.#loadedAtMs, loadErrors: this.#loadErrors, fault: this.#fault },
      ...{ refused: [...this.#refused].map((id) => (isKeyId(id) ? id : "?")), wentBack: this.#wentBack },
    };
  }

  /** Calls `listener` after each change that was taken over, and once when the store cannot be read. */
  onChange(listener: (status: KeyStoreStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Stops following the store and forgets all listeners; `find` goes on with the last records. Resolves when the state in
   * use is noted, or after a second, as a file system may hang.
   */
  async close(): Promise<void> {
    this.#end.abort();
    this.#listeners.clear();
    this.#cancelLook();
    const noted = new AbortController();
    await Promise.race([this.#noting, sleep(this.#options.clock, CLOSE_MS, noted.signal)]);
    noted.abort();
  }

  /** Reads all records and follows their changes from then on. Resolves to whether the store answered. */
  async #begin(): Promise<boolean> {
    const before = this.#fault;
    try {
      await this.#catchUp();
    } catch (error) {
      if (!(error instanceof KeyStoreError) || error.fault !== "unreachable") throw error;
      this.#loadErrors += 1;
      this.#fault = error.fault;
      return false;
    }
    this.#fault = this.#partFault;
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
      this.#fault = this.#partFault;
      if (isNew || before !== this.#fault) this.#tell();
    } catch (error) {
      this.#loadErrors += 1;
      this.#fault = isKeyStoreError(error) ? error.fault : "unreadable";
      if (this.#fault !== before) this.#tell();
    }
  }

  /** Why some of the records in use are not those of the store; undefined where all are. */
  get #partFault(): KeyStoreStatus["fault"] {
    return this.#refused.size > 0 ? "records_refused" : undefined;
  }

  /** Reads the records that have changed. Resolves to whether there were any. */
  async #catchUp(): Promise<boolean> {
    const stored = await this.#stored.head();
    const nowMs = this.#options.clock.nowMs();
    const isSame = this.#lookedAt === (stored?.text ?? null);
    if (isSame && nowMs < this.#againMs) {
      if (this.#failure) throw this.#failure;
      return false;
    }
    this.#lookedAt = undefined;
    const before = this.#head;
    const reading = await this.#read(stored, isSame).catch(async (error: unknown) => {
      if (!(error instanceof KeyStoreError) || error.fault === "unreachable") throw error;
      // Commands refuse to change keys in a store that a gateway does not follow.
      if (this.#head) await this.#reader.noteHeld(this.#head);
      [this.#failure, this.#lookedAt, this.#againMs] = [error, stored?.text ?? null, nowMs + AGAIN_MS];
      throw error;
    });
    await this.#take(reading);
    this.#note(reading);
    [this.#failure, this.#lookedAt] = [undefined, stored?.text ?? null];
    this.#againMs = this.#refused.size > 0 ? nowMs + AGAIN_MS : Number.POSITIVE_INFINITY;
    return reading.isWhole || reading.head !== before;
  }

  /** Reads what has changed or, where the store does not go on from the records in use, all of it. */
  async #read(stored: StoredHead | undefined, isSame: boolean): Promise<Reading> {
    const changed = stored && this.#head && !isSame ? await this.#reader.since(this.#head, stored) : undefined;
    if (changed) return changed;
    const known = this.#head ? [this.#head] : await this.#knownBefore();
    const whole = await this.#reader.whole(known);
    assertFollows(whole, known);
    if (whole.known && whole.relation === "forked" && !this.#head)
      throw new KeyStoreError(
        "revision_went_back",
        `the store has lost changes up to revision ${whole.known.revision}, which were in use: put the newer store back, or accept what there is on purpose with 'keys restore'`,
      );
    return whole;
  }

  /** Resolves to the newest state that was in use on this host, and to the one that another gateway holds. */
  async #knownBefore(): Promise<readonly SeenHead[]> {
    return knownHeads(await readSeenHead(this.#options.pepperFile), await this.#reader.held());
  }

  async #take({ head, relation, isWhole, records, refused }: Reading): Promise<void> {
    const turns = new WorkTurns();
    const isOnPurpose = relation === "restored";
    if (relation === "forked") this.#wentBack += 1;
    if (isWhole) this.#refused = new Set(refused);
    for (const id of refused) this.#refused.add(id);
    if (isWhole)
      for (const [id, { status }] of this.#records)
        if (!records.has(id) && !refused.has(id)) {
          // Of a key that is gone with lost changes, the end stays known.
          if (status === "active" || isOnPurpose) this.#remove(id);
          else this.#refused.add(id);
        }
    for (const [id, record] of records) {
      if (turns.isOver) await turns.next();
      if (!isOnPurpose && isOlder(this.#records.get(id), record)) {
        this.#refused.add(id);
        continue;
      }
      this.#table.put(record);
      this.#records.set(id, record);
      this.#refused.delete(id);
    }
    this.#head = head;
    this.#loadedAtMs = this.#options.clock.wallMs();
  }

  #remove(id: string): void {
    this.#table.remove(id);
    this.#records.delete(id);
  }

  /**
   * Notes the state in use for later starts, where all of it is in use. Keys are in force without that, and nothing waits
   * for it: a file system may hang.
   */
  #note({ head, relation }: Reading): void {
    if (this.#refused.size > 0 || this.#end.signal.aborted) return;
    this.#toNote = { head, isForked: relation === "forked" || this.#toNote?.isForked === true };
    this.#noting ??= this.#noteAll().finally(() => {
      this.#noting = undefined;
    });
  }

  async #noteAll(): Promise<void> {
    for (let next = this.#toNote; next; next = this.#toNote) {
      this.#toNote = undefined;
      await noteSeenHead(this.#options.pepperFile, next.head, next.isForked).catch(() => {});
    }
  }

  #tell(): void {
    if (this.#end.signal.aborted) return;
    const status = this.status();
    for (const listener of this.#listeners) listener(status);
  }
}

/**
 * Returns whether an active record is older than the one in use: changes that it lacks may have taken rights or secrets
 * away. A revocation is never undone, and one that disabled the key counts above another change of the same revision.
 */
function isOlder(held: KeyRecord | undefined, next: KeyRecord): boolean {
  if (!held || next.status !== "active") return false;
  if (held.status === "active") return next.revision < held.revision;
  return held.status === "revoked" || next.revision <= held.revision;
}
