import { WorkTurns } from "../../../deploy/runtime/time/work-turns.ts";
import type { RedisState } from "../../state/redis-state.ts";
import { lineCheck, NO_LINE } from "../audit-log.ts";
import type { Pepper } from "../key-digest.ts";
import { isKeyId } from "../key-format.ts";
import type { KeyRecord } from "../key-record.ts";
import { KeyStoreError } from "../key-store.ts";
import { type KeyState, newestFileOf, noteNewest, readNewest } from "../newest-state.ts";
import { applied, type Changed, emptyHistory, type History, readCheckpoint, revisionOf, withLine } from "./history.ts";
import { RecordSigner } from "./record-signer.ts";
import { SharedState } from "./shared-state.ts";
import { type StoredHead, StoredKeys } from "./stored-keys.ts";

const TRIES = 5;
/** Use of the signature of a checkpoint. */
export const CHECKPOINT = "checkpoint";

export type Records = {
  /** Valid records by id; undefined for those that the caller need not read again. */
  readonly records: ReadonlyMap<string, KeyRecord | undefined>;
  /** Ids of records that are missing, were not signed with the pepper, or are older than their newest change. */
  readonly refused: ReadonlySet<string>;
};

type Found = { readonly records: Map<string, KeyRecord | undefined>; readonly refused: Set<string> };

function noRecords(): Found {
  return { records: new Map(), refused: new Set() };
}

export type Reading = Records & { readonly history: History; readonly isWhole: boolean };

/** Returns whether a record of this revision need not be read again. */
export type IsKnown = (id: string, revision: number) => boolean;

/** Reads the keys in the store that gateways share; records and lines have to be signed with the pepper. */
export class KeysReader {
  readonly #stored: StoredKeys;
  readonly #pepper: Pepper;
  readonly #pepperFile: string;
  readonly #check: ReturnType<typeof lineCheck>;
  readonly #signer: RecordSigner;
  readonly #shared: SharedState;

  constructor(state: RedisState, pepper: Pepper, pepperFile: string) {
    this.#stored = new StoredKeys(state);
    this.#shared = new SharedState(state, "store");
    this.#pepperFile = pepperFile;
    this.#pepper = pepper;
    this.#check = lineCheck(pepper);
    this.#signer = new RecordSigner(pepper);
  }

  /**
   * Reads what the audit log says, from the checkpoint on; undefined if there are no keys. Rejects with `KeyStoreError`:
   * `not_signed` if the log cannot be trusted, `pepper_mismatch` for another pepper.
   */
  async history(): Promise<History | undefined> {
    const head = await this.#stored.head();
    if (head === undefined) return undefined;
    const { base, pepperId } = head;
    if (base === undefined) throw notSigned(0);
    try {
      const checkpoint = readCheckpoint(this.#signer.openText(CHECKPOINT, await this.#stored.checkpoint()) ?? "");
      const changed: Changed = new Map();
      // An earlier release restores keys without a checkpoint.
      const from = checkpoint && checkpoint.index >= base && (await this.#continued(checkpoint, changed));
      if (from) return applied(from, changed);
      changed.clear();
      const whole = await this.#continued(emptyHistory(base), changed);
      if (!whole || whole.mac === "") throw notSigned(base);
      return applied(whole, changed);
    } catch (cause) {
      if (!(cause instanceof KeyStoreError) || cause.fault !== "not_signed" || pepperId === this.#pepper.id)
        throw cause;
      const text = `${this.#pepperFile} is not the pepper that the stored keys were made with`;
      throw new KeyStoreError("pepper_mismatch", text, { cause });
    }
  }

  /** Reads all keys; undefined if there are none. Rejects as `history`. */
  async whole(isKnown?: IsKnown): Promise<Reading | undefined> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const begun = await this.history();
      if (!begun) return undefined;
      const found = noRecords();
      const turns = new WorkTurns();
      for await (const [id, text] of this.#stored.all()) {
        if (turns.isOver) await turns.next();
        this.#sort(found, id, text, revisionOf(begun, id), isKnown);
      }
      // Records that changed meanwhile may have been read in their old state.
      const history = await this.#followed(begun, found);
      if (!history) continue;
      for (const id of history.revisions.keys()) if (!found.records.has(id)) found.refused.add(id);
      return { ...found, history, isWhole: true };
    }
    throw new KeyStoreError("conflict", "the keys are restored again and again; try again");
  }

  /** Reads what changed. Undefined if the store does not continue the history. Rejects as `history`. */
  async since(known: History, head: StoredHead): Promise<Reading | undefined> {
    const found = noRecords();
    const history = await this.#followed(known, found);
    if (!history) return undefined;
    // Another program may have changed the head alone.
    if (history.mac === known.mac && (head.revision !== known.revision || head.auditHead !== known.mac))
      return undefined;
    return { ...found, history, isWhole: false };
  }

  /** Reads the records of these keys that should be in the store. */
  async some(history: History, ids: readonly string[]): Promise<Records> {
    const found = noRecords();
    for await (const [id, text] of this.#stored.texts(ids))
      if (text !== undefined || history.revisions.has(id)) this.#sort(found, id, text, revisionOf(history, id));
    return found;
  }

  /** Resolves to a valid record of this owner, if there is one. */
  async ofOwner(history: History, owner: string): Promise<KeyRecord | undefined> {
    const part = `"owner":${JSON.stringify(owner)}`;
    for await (const [id, text] of this.#stored.all()) {
      if (!text.includes(part)) continue;
      const record = (await this.some(history, [id])).records.get(id);
      if (record?.owner === owner) return record;
    }
    return undefined;
  }

  /** Returns whether the stored keys continue a state, or were restored since. */
  async continues(history: History, known: KeyState): Promise<boolean> {
    if (known.mac === "" || known.mac === history.mac || history.restored > known.revision) return true;
    return isLine(await this.#stored.line(known.index), known);
  }

  /** The newest state that was in use, as this host or the store knows it; revision 0 if there was none. */
  async newest(): Promise<KeyState> {
    const here = await readNewest(newestFileOf(this.#pepperFile));
    const there = await this.#shared.read(this.#pepper);
    // Gateways record there, too, that all lost changes were made again.
    return there && there.revision >= here.revision ? there : here;
  }

  /** Records a state that the store does not continue: until it does, a start is refused and commands warn. */
  async noteLost(state: KeyState): Promise<void> {
    await this.#shared.note(this.#pepper, state);
  }

  /**
   * Records the state in use, here and in the store; with `lost`, a state whose lost changes were made again. A state in
   * the store that the keys do not continue, and that is newer than `lost`, remains: others know more.
   */
  async noteInUse(history: History, lost: KeyState | undefined): Promise<void> {
    await noteNewest(newestFileOf(this.#pepperFile), history, lost !== undefined).catch(() => {});
    const there = await this.#shared.read(this.#pepper);
    const isKnown = !there || there.revision <= (lost?.revision ?? 0);
    if (isKnown || (there.revision < history.revision && (await this.continues(history, there))))
      await this.#shared.note(this.#pepper, history);
  }

  /** Sorts a stored text, or none, into `found`. `revision` is that of the newest line of the key; 0 if there is none. */
  #sort(found: Found, id: string, text: string | undefined, revision: number, isKnown?: IsKnown): void {
    found.records.delete(id);
    found.refused.delete(id);
    const signed = text === undefined ? undefined : this.#signer.open(id, text);
    const isNewest = signed !== undefined && signed.revision === revision;
    const isSame = isNewest && isKnown?.(id, revision) === true;
    const record = isNewest && !isSame ? signed.record() : undefined;
    if (record || isSame) found.records.set(id, record);
    else if (text !== undefined || revision > 0) found.refused.add(id);
  }

  /** Reads lines and the records that they name until there are no more. Undefined as `#continued`, or if restored. */
  async #followed(from: History, found: Found): Promise<History | undefined> {
    const all: Changed = new Map();
    for (let history = from; ; ) {
      const changed: Changed = new Map();
      const next = await this.#continued(history, changed);
      if (!next || next.restored !== from.restored) return undefined;
      history = next;
      // The revisions of a gateway change only once all has been read.
      if (changed.size === 0) return applied(history, all);
      for await (const [id, text] of this.#stored.texts([...changed.keys()]))
        this.#sort(found, id, text, changed.get(id) ?? 0);
      for (const [id, revision] of changed) all.set(id, revision);
    }
  }

  /** Reads the lines behind a history. Undefined if the store does not hold its newest line. Rejects `not_signed`. */
  async #continued(from: History, changed: Changed): Promise<History | undefined> {
    let history = from;
    const turns = new WorkTurns();
    let isFirst = from.mac !== "";
    for await (const line of this.#stored.lines(isFirst ? from.index : from.index + 1)) {
      if (turns.isOver) await turns.next();
      if (isFirst && !isLine(line, from)) return undefined;
      if (!isFirst) {
        const entry = this.#check(line, history.mac || undefined);
        if (!entry || (history.mac === "" && entry.action !== "restore" && entry.prev !== NO_LINE))
          throw notSigned(history.index + 1);
        history = withLine(history, entry, changed);
      }
      isFirst = false;
    }
    return isFirst ? undefined : history;
  }
}

function isLine(line: string, { mac }: KeyState): boolean {
  return line.endsWith(`"mac":"${mac}"}`);
}

function notSigned(index: number): KeyStoreError {
  return new KeyStoreError(
    "not_signed",
    `the audit log of the stored keys is not as it was written, from line ${index + 1} on: put a backup of the store back, or have the keys of an export taken with 'keys restore EXPORT'`,
  );
}

/** Describes refused records to operators. */
export function refusedText(refused: ReadonlySet<string>): string {
  const ids = [...refused].filter(isKeyId).slice(0, 20).join(", ");
  return `${refused.size} records are left out, as they are not as they were written (${ids}): 'keys restore' drops them`;
}

/** Returns the error of a store that does not continue a state in use; `revision` is its own, if it holds keys. */
export function wentBack(known: KeyState, revision: number | undefined): KeyStoreError {
  const what = revision === undefined ? "holds no keys, and has" : `has revision ${revision}, and has`;
  return new KeyStoreError(
    "revision_went_back",
    `the store ${what} lost changes up to revision ${known.revision}, which were in use: put the newer store back, make those changes again, or accept what there is on purpose: 'keys restore' takes the store as it stands, 'keys restore EXPORT' the keys of a file`,
  );
}
