import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisState } from "../../state/redis-state.ts";
import type { RedisSettings } from "../../state/state-settings.ts";
import { auditLines, type KeyChange, keyChanges, RESTORE } from "../audit-log.ts";
import type { Pepper } from "../key-digest.ts";
import { assertPepperFits, type KeySetChanger, makePepperFile, readKeySet, readPepper } from "../key-file.ts";
import { EMPTY_KEY_SET, type KeyRecord, type KeySet } from "../key-record.ts";
import { isKeyStoreError, KeyStoreError } from "../key-store.ts";
import type { KeyScope, KeyVault, VaultKeys } from "../key-vault.ts";
import { newestFileOf, noteNewest } from "../newest-state.ts";
import { applied, type Changed, checkpointText, emptyHistory, type History, withLine } from "./history.ts";
import { CHECKPOINT, KeysReader, type Records, refusedText, wentBack } from "./keys-reader.ts";
import { RecordSigner } from "./record-signer.ts";
import { StoredKeys } from "./stored-keys.ts";

const TRIES = 5;
const BATCH = 500;
/** Lines behind a checkpoint with which a change writes the next one. */
const CHECKPOINT_LINES = 200;
/** Least time, in milliseconds, for which a command waits for an answer. */
const PATIENCE_MS = 5_000;

/** Opens the keys in the store that gateways share. `warn` receives the faults of a completed change. */
export async function openRedisKeyVault(
  settings: RedisSettings,
  pepperFile: string,
  warn: (text: string) => void,
): Promise<KeyVault> {
  const state = new RedisState({ settings, clock: systemClock, commandTimeoutMs: PATIENCE_MS });
  await state.connect();
  return new RedisKeyVault(state, pepperFile, warn);
}

/** `lost`: why the store went back, if it did. */
type Found = Records & { readonly history: History; readonly lost: string | undefined };

class RedisKeyVault implements KeyVault {
  readonly isFile = false;
  readonly name: string;
  readonly auditName: string;
  readonly pepperFile: string;
  readonly #state: RedisState;
  readonly #stored: StoredKeys;
  readonly #warn: (text: string) => void;

  constructor(state: RedisState, pepperFile: string, warn: (text: string) => void) {
    this.name = `the store of keys ${state.settings.keyPrefix}`;
    this.auditName = `the audit log of ${this.name}`;
    this.pepperFile = pepperFile;
    this.#state = state;
    this.#stored = new StoredKeys(state);
    this.#warn = warn;
  }

  async read(scope?: KeyScope): Promise<VaultKeys> {
    const pepper = await this.#pepper();
    const found = pepper && (await this.#find(pepper, scope));
    if (!found) throw new KeyStoreError("missing", "there are no keys in the store");
    const { refused, lost } = found;
    const amiss = [...(refused.size > 0 ? [refusedText(refused)] : []), ...(lost === undefined ? [] : [lost])];
    return { set: setOf(found), pepper, amiss };
  }

  async readAudit(): Promise<Buffer | undefined> {
    let text = "";
    for await (const line of this.#stored.lines(0)) text += `${line}\n`;
    return text === "" ? undefined : Buffer.from(text);
  }

  close(): void {
    this.#state.close();
  }

  async update<T>(create: boolean, scope: KeyScope, change: KeySetChanger<T>): Promise<T> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const known = await this.#pepper();
      const found = known && (await this.#find(known, scope));
      if (!found && !create) throw new KeyStoreError("missing", "there are no keys in the store");
      // The record before the refused one is unknown here, and the refused one must not be signed again.
      if (found && found.refused.size > 0) throw new KeyStoreError("records_refused", refusedText(found.refused));
      if (found?.lost !== undefined) this.#warn(found.lost);
      const pepper = known ?? (await makePepperFile(this.pepperFile));
      const before = found ? setOf(found) : EMPTY_KEY_SET;
      const { set, value } = change(before, pepper);
      if (set === before) return value;
      const history = await this.#write(keyChanges(before, set), set, pepper, found?.history);
      if (!history) continue;
      // Only gateways, which hold the lost records, accept that a store has lost changes.
      await this.#made(found?.lost === undefined ? history : undefined);
      return value;
    }
    throw changedMeanwhile();
  }

  async restore(from: string | undefined, above: number): Promise<KeySet> {
    const given = from === undefined ? undefined : await readKeySet(from);
    const pepper = await readPepper(this.pepperFile);
    if (!pepper) throw this.#missingPepper();
    const last = await this.#stored.line(-1);
    const reader = new KeysReader(this.#state, pepper, this.pepperFile);
    const reading = await reader.whole().catch((error: unknown) => {
      if (!given || !isKeyStoreError(error) || error.fault === "unreachable") throw error;
      return undefined;
    });
    const now = reading && setOf(reading);
    const keys = (given ?? now)?.keys ?? [];
    if (keys.length === 0) throw new KeyStoreError("empty", `${from ?? "the store"} holds no keys`);
    assertPepperFits(this.pepperFile, pepper, { keys });
    // A restore takes effect only if it is newer than everything that it replaces.
    const older = [given, now, await this.#stored.head(), await reader.newest()];
    const set = inOrder({ v: 1, revision: Math.max(above, ...older.map((one) => one?.revision ?? 0)) + 1, keys });
    const mac = /"mac":"([0-9a-f]{64})"\}$/.exec(last)?.[1];
    const before = emptyHistory(await this.#stored.length(), mac);
    const changes = [RESTORE, ...keyChanges(now ?? set, set)];
    const history = await this.#commit(before, { changes, keys, revision: set.revision, pepper, isLast: true });
    if (!history) throw changedMeanwhile();
    await this.#made(history);
    return set;
  }

  async #pepper(): Promise<Pepper | undefined> {
    const pepper = await readPepper(this.pepperFile);
    if (!pepper && (await this.#stored.head()) !== undefined) throw this.#missingPepper();
    return pepper;
  }

  /** Finds the records that are needed, all without a scope; undefined if the store holds no keys, and never did. */
  async #find(pepper: Pepper, scope?: KeyScope): Promise<Found | undefined> {
    const reader = new KeysReader(this.#state, pepper, this.pepperFile);
    const known = await reader.newest();
    const whole = scope ? undefined : await reader.whole();
    const history = scope ? await reader.history() : whole?.history;
    if (!history && known.revision > 0) throw wentBack(known, undefined);
    if (!history) return undefined;
    const isLost = !(await reader.continues(history, known));
    if (isLost) await reader.noteLost(known);
    const lost = isLost ? wentBack(known, history.revision).message : undefined;
    const { records, refused } = whole ?? (await reader.some(history, scope?.ids ?? []));
    const sibling = scope?.owner ? await reader.ofOwner(history, scope.owner) : undefined;
    return { history, lost, refused, records: sibling ? new Map([...records, [sibling.id, sibling]]) : records };
  }

  /** Resolves to the new history; undefined if another change came first. Many records take several atomic steps. */
  async #write(
    changes: readonly KeyChange[],
    set: KeySet,
    pepper: Pepper,
    before: History = emptyHistory(0),
  ): Promise<History | undefined> {
    const changed = new Map(set.keys.map((record) => [record.id, record]));
    let now = before;
    for (let at = 0; at < changes.length; at += BATCH) {
      const batch = changes.slice(at, at + BATCH);
      const keys = batch.flatMap(({ keyId }) => changed.get(keyId) ?? []);
      const isLast = at + BATCH >= changes.length;
      const next = await this.#commit(now, { changes: batch, keys, revision: now.revision + 1, pepper, isLast });
      if (!next && at > 0) throw changedMeanwhile();
      if (!next) return undefined;
      now = next;
    }
    return now;
  }

  async #commit(before: History, { changes, keys, revision, pepper, isLast }: Step): Promise<History | undefined> {
    const signer = new RecordSigner(pepper);
    const wallMs = systemClock.wallMs();
    const { lines, entries } = auditLines({ changes, revision, pepper, wallMs }, before.mac || undefined);
    const changed: Changed = new Map();
    const next = entries.reduce((history, entry) => withLine(history, entry, changed), before);
    const begins = before.revision === 0;
    // A restore writes records that its lines do not name.
    for (const { id } of keys) changed.set(id, revision);
    applied(next, changed);
    const isDue = next.restored === revision || next.index - next.checkpoint >= CHECKPOINT_LINES;
    const made = await this.#stored.change({
      ...{ last: before.mac, begins, revision, auditHead: next.mac, pepperId: pepper.id, lines },
      records: keys.map((record) => ({ id: record.id, text: signer.sign(revision, record) })),
      checkpoint: isLast && isDue ? signer.signText(CHECKPOINT, checkpointText(next)) : undefined,
    });
    return made ? next : undefined;
  }

  async #made(history: History | undefined): Promise<void> {
    if (history)
      await noteNewest(newestFileOf(this.pepperFile), history).catch((error: unknown) => {
        if (!isKeyStoreError(error)) throw error;
        this.#warn(`${error.message}: an older store would not be noticed from here`);
      });
    const replicated = await this.#stored.replicated().catch(() => false);
    if (replicated === false)
      this.#warn("no replica of the store has confirmed the change: a fail-over now would lose it");
  }

  #missingPepper(): KeyStoreError {
    const text = `${this.pepperFile} is missing; copy the one that the stored keys were made with`;
    return new KeyStoreError("pepper_missing", text);
  }
}

/** One atomic step of a change. */
type Step = {
  readonly changes: readonly KeyChange[];
  readonly keys: readonly KeyRecord[];
  readonly revision: number;
  readonly pepper: Pepper;
  readonly isLast: boolean;
};

function setOf({ history, records }: Pick<Found, "history" | "records">): KeySet {
  const keys = [...records.values()].filter((record) => record !== undefined);
  return inOrder({ v: 1, revision: history.revision, auditHead: history.mac, keys });
}

function inOrder(set: KeySet): KeySet {
  const keys = set.keys.toSorted(
    (one, other) => one.created.localeCompare(other.created) || one.id.localeCompare(other.id),
  );
  return { ...set, keys };
}

function changedMeanwhile(): KeyStoreError {
  return new KeyStoreError("conflict", "others change keys all the time; try again");
}
