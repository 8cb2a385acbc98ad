import { sleep } from "../../../deploy/runtime/time/abort.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { WorkSlices } from "../../../deploy/runtime/time/work-slices.ts";
import type { RedisState } from "../../state/redis-state.ts";
import { keyChanges, PUT_BACK } from "../audit-log.ts";
import type { Pepper } from "../key-digest.ts";
import { readPepper } from "../key-file.ts";
import { EMPTY_KEY_SET, type KeyRecord } from "../key-record.ts";
import { isKeyStoreError, KeyStore, KeyStoreError } from "../key-store.ts";
import { type Head, type Known, type Reading, SignedKeys } from "./signed-keys.ts";
import { KEYS_CHANNEL } from "./stored-keys.ts";

/** Milliseconds between two reads of the head, for lost messages. */
const LOOK_MS = 500;
/** Milliseconds after which a refused or partly refused store is read again although it is unchanged. */
const AGAIN_MS = 60_000;
/** Milliseconds after which all records are read again although none was changed by a command. */
const REREAD_MS = 600_000;
const TRIES = 5;

export type RedisKeyStoreOptions = {
  readonly state: RedisState;
  readonly pepperFile: string;
  readonly clock: Clock;
};

/**
 * Keys in the store that gateways share. All records are kept in this process, so that a look-up needs no request to
 * the store; a change reads only the changed records. While the store is unreachable or unusable the records stay in
 * force, and `status()` reports it.
 * A store that lost changes gets them back from the gateways that know them, before anything is taken from it. At the
 * start such a store is refused.
 */
export class RedisKeyStore extends KeyStore {
  readonly #options: RedisKeyStoreOptions;
  readonly #keys: SignedKeys;
  /** The state of the keys in use; undefined until they are loaded. */
  #known: Known | undefined;
  /** Text of the head from which the keys in use, or a failure, resulted; undefined before. */
  #lookedAt: string | undefined;
  /** From this time on the store is read again although it is unchanged. */
  #againMs = 0;
  /** The state in use when the store was last found without changes. */
  #wentBackFrom: Head | undefined;
  #noted: Head | undefined;
  #looking: Promise<unknown> = Promise.resolve();
  #cancelLook = () => {};
  /** Resolves when keys are loaded, or after `close`. Rejects if a store that was unreachable has unusable keys. */
  loaded = Promise.resolve();

  private constructor(options: RedisKeyStoreOptions, pepper: Pepper) {
    super(options.clock, pepper);
    this.#options = options;
    this.#keys = new SignedKeys(options.state, pepper, options.pepperFile);
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

  protected override get refusedIds() {
    return [...(this.#known?.refused ?? [])];
  }

  /** Reads all keys and follows them; resolves to false if the store does not answer. */
  async #begin(): Promise<boolean> {
    await this.#lookOnce();
    if (this.failure?.fault === "unreachable") return false;
    if (this.failure) throw this.failure;
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

  /** Reads new changes and reports them, or the failure. */
  async #lookOnce(): Promise<void> {
    const before = this.#state;
    let text: string | undefined;
    try {
      text = await this.#keys.stored.head();
      const [isSame, isFirst, nowMs] = [this.#lookedAt === text, !this.#known, this.clock.nowMs()];
      if (isSame && nowMs < this.#againMs) return;
      await this.#take(await this.#read(isSame));
      const againMs = nowMs + (this.refusedIds.length > 0 ? AGAIN_MS : REREAD_MS);
      // Changes do not put off the slow reading.
      this.#againMs = isSame || isFirst ? againMs : Math.min(this.#againMs, againMs);
      [this.failure, this.#lookedAt] = [undefined, text];
    } catch (error) {
      this.loadErrors += 1;
      this.failure = isKeyStoreError(error) ? error : new KeyStoreError("unreadable", String(error));
      this.#lookedAt = this.failure.fault === "unreachable" ? undefined : text;
      this.#againMs = this.clock.nowMs() + AGAIN_MS;
    }
    const head = this.#known?.head;
    if (head && head !== this.#noted && !this.noting) {
      this.#noted = head;
      this.note(() => this.#keys.noteInUse(head));
    }
    if (this.#state !== before) this.report();
  }

  /** A text that differs after each change that is reported. */
  get #state(): string {
    return [this.failure?.fault, this.#known?.head.text, ...this.refusedIds].join();
  }

  /** Reads what changed, and, if it is read again, verifies what did not. */
  async #read(isAgain: boolean): Promise<Reading> {
    const known = this.#known;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const reading = await this.#keys.read(undefined, known, isAgain);
      if (!known) {
        const loss = await this.#keys.lossOf(reading?.head);
        if (loss) throw loss;
        if (!reading) throw new KeyStoreError("missing", "there are no keys in the store");
        return reading;
      }
      if (reading && (await this.#keys.follows(reading.head, known.head))) return reading;
      if (this.#wentBackFrom !== known.head) this.wentBack += 1;
      this.#wentBackFrom = known.head;
      if (!(await this.#putBack(known, reading)) && reading) return reading;
    }
    throw new KeyStoreError("revision_went_back", "the store of keys loses changes again and again");
  }

  /**
   * Writes changes again that a store has lost. Resolves to false if it lacks none. A restore that it lost is repeated as
   * a whole: keys that the restore dropped do not come back.
   */
  async #putBack(known: Known, found: Reading | undefined): Promise<boolean> {
    const isWhole = !found || known.head.restored > found.head.restored;
    const lost = [...this.table.records()].filter((held) => {
      const stored = found?.records.get(held.id);
      return isWhole || found.removed.has(held.id) || (stored !== undefined && isOlder(held, stored));
    });
    if (!isWhole && lost.length === 0 && found.head.mended >= known.head.revision) return false;
    const before = lost.flatMap(({ id }) => found?.records.get(id) ?? []);
    const changes = keyChanges({ ...EMPTY_KEY_SET, keys: before }, { ...EMPTY_KEY_SET, keys: lost });
    await this.#keys.change(found, {
      changes: [PUT_BACK, ...changes],
      keys: lost,
      revision: Math.max(known.head.revision, found?.head.revision ?? 0) + 1,
      isWhole: found !== undefined && isWhole,
      restored: Math.max(known.head.restored, found?.head.restored ?? 0),
      mended: Math.max(known.head.revision, found?.head.mended ?? 0),
    });
    return true;
  }

  async #take({ records, removed, ...known }: Reading): Promise<void> {
    const slices = new WorkSlices();
    for (const id of removed) this.table.remove(id);
    for (const record of records.values()) {
      if (slices.isOver) await slices.next();
      this.table.put(record);
    }
    this.#known = known;
    this.revision = known.head.revision;
    this.loadedAtMs = this.clock.wallMs();
  }
}

/**
 * Returns whether an active record is older than the one in use: changes that it lacks may have removed rights or
 * secrets. A revocation is never undone, and a change that disabled the key takes precedence over another change of the
 * same revision.
 */
function isOlder(held: KeyRecord, next: KeyRecord): boolean {
  if (next.status !== "active") return false;
  if (held.status === "active") return next.revision < held.revision;
  return held.status === "revoked" || next.revision <= held.revision;
}
