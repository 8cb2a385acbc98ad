import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisState } from "../../state/redis-state.ts";
import type { RedisSettings } from "../../state/state-settings.ts";
import { type AuditAddition, auditLines, type KeyChange, keyChanges } from "../audit-log.ts";
import type { Pepper } from "../key-digest.ts";
import { assertPepperFits, type KeySetChanger, makePepperFile, readKeySet, readPepper } from "../key-file.ts";
import { isKeyId } from "../key-format.ts";
import { EMPTY_KEY_SET, type KeyRecord, type KeySet } from "../key-record.ts";
import { isKeyStoreError, KeyStoreError } from "../key-store.ts";
import type { KeyVault, VaultKeys } from "../key-vault.ts";
import { noteSeenHead, type SeenHead } from "../seen-revision.ts";
import { assertFollows, KeysReader, type Reading } from "./keys-reader.ts";
import { RecordSigner, readUnverified, StoredKeys } from "./stored-keys.ts";

const TRIES = 5;
const BATCH = 500;
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

type Found = {
  readonly pepper: Pepper | undefined;
  readonly known: readonly SeenHead[];
  readonly reading: Reading | undefined;
};

/** The state that a change is based on; without an identity if the store has none, or if another history begins. */
type From = { readonly id: string | undefined; readonly auditHead: string | undefined; readonly last: string };

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

  async read(): Promise<VaultKeys> {
    const { reading, pepper, known } = await this.#find();
    assertFollows(reading, known);
    return { set: setOf(reading), pepper, amiss: amissOf(reading) };
  }

  async readAudit(): Promise<Buffer | undefined> {
    let text = "";
    for await (const line of this.#stored.lines(0)) text += `${line}\n`;
    return text === "" ? undefined : Buffer.from(text);
  }

  close(): void {
    this.#state.close();
  }

  async update<T>(create: boolean, change: KeySetChanger<T>): Promise<T> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const { reading, known, ...found } = await this.#find();
      if (reading || !create || known.length > 0) assertFollows(reading, known);
      for (const text of reading ? amissOf(reading) : []) this.#warn(text);
      const pepper = found.pepper ?? (await makePepperFile(this.pepperFile));
      const before = reading ? setOf(reading) : EMPTY_KEY_SET;
      const { set, value } = change(before, pepper);
      if (set === before) return value;
      const head = await this.#write(keyChanges(before, set), set, pepper, reading?.head);
      if (!head) continue;
      // Only gateways, which hold the lost records, may accept a history that has lost changes.
      await this.#made(reading?.relation === "forked" ? undefined : head);
      return value;
    }
    throw changedMeanwhile();
  }

  async restore(from: string | undefined, unverified: boolean): Promise<KeySet> {
    const given = from === undefined ? undefined : await readKeySet(from);
    const pepper = await readPepper(this.pepperFile);
    if (!pepper) throw this.#missingPepper();
    const last = await this.#stored.lastLine();
    const reader = new KeysReader(this.#stored, pepper, this.pepperFile);
    const known = await reader.known();
    const reading = await reader.whole(known).catch((error: unknown) => {
      if (!isKeyStoreError(error) || error.fault === "unreachable" || !(given || unverified)) throw error;
      return undefined;
    });
    const keys = given?.keys ?? (unverified ? await this.#unverified() : [...(reading?.records.values() ?? [])]);
    if (keys.length === 0) throw new KeyStoreError("empty", `${from ?? "the store"} holds no keys`);
    assertPepperFits(this.pepperFile, pepper, { keys });
    const older = [...known, ...(reading ? [reading.head] : [])];
    const revisions = [given, await this.#stored.head(), ...older].map((one) => one?.revision ?? 0);
    const set = inOrder({ v: 1, revision: Math.max(...revisions) + 1, keys });
    const changes = [{ action: "restore", keyId: "*", fields: [] }, ...keyChanges(reading ? setOf(reading) : set, set)];
    // A restore takes effect only if it is newer than everything that it replaces.
    const wallMs = Math.max(systemClock.wallMs(), ...older.map(({ ts }) => Date.parse(ts) + 1));
    const before = { id: undefined, auditHead: /"mac":"([0-9a-f]{64})"\}$/.exec(last)?.[1], last };
    const head = await this.#commit(before, { changes, keys, revision: set.revision, pepper, wallMs });
    if (!head) throw changedMeanwhile();
    await this.#made(head);
    return set;
  }

  async #find(): Promise<Found> {
    const pepper = await readPepper(this.pepperFile);
    if (pepper) {
      const reader = new KeysReader(this.#stored, pepper, this.pepperFile);
      const known = await reader.known();
      return { pepper, known, reading: await reader.whole(known) };
    }
    if ((await this.#stored.head()) !== undefined) throw this.#missingPepper();
    return { pepper, known: [], reading: undefined };
  }

  /** Resolves to the new state; undefined if another change came first. Many records take several atomic steps. */
  async #write(
    changes: readonly KeyChange[],
    set: KeySet,
    pepper: Pepper,
    before: (SeenHead & From) | undefined,
  ): Promise<SeenHead | undefined> {
    const changed = new Map(set.keys.map((record) => [record.id, record]));
    let now = before;
    for (let at = 0; at < changes.length; at += BATCH) {
      const batch = changes.slice(at, at + BATCH);
      const keys = batch.flatMap(({ keyId }) => changed.get(keyId) ?? []);
      const revision = (now?.revision ?? 0) + 1;
      const next = { changes: batch, keys, revision, pepper, wallMs: systemClock.wallMs() };
      now = await this.#commit(now ?? { id: undefined, auditHead: undefined, last: "" }, next);
      if (!now && at > 0) throw changedMeanwhile();
      if (!now) return undefined;
    }
    return now;
  }

  async #commit(
    { id, auditHead: prev, last }: From,
    { keys, ...addition }: Omit<AuditAddition, "head"> & { readonly keys: readonly KeyRecord[] },
  ): Promise<(SeenHead & From) | undefined> {
    const { revision, pepper, wallMs } = addition;
    const signer = new RecordSigner(pepper);
    const { lines, head: auditHead } = auditLines({ ...addition, head: prev }, prev);
    const records = keys.map((record) => ({ id: record.id, text: signer.sign(revision, record) }));
    const change = { revision, auditHead, pepperId: pepper.id, records, lines };
    if (!(await this.#stored.change({ last, begins: id === undefined, ...change }))) return undefined;
    // The MAC of the line that begins a history is its identity.
    const first = lines[0]?.slice(-66, -2) ?? "";
    return { id: id ?? first, revision, auditHead, ts: new Date(wallMs).toISOString(), last: lines.at(-1) ?? "" };
  }

  async #made(head: SeenHead | undefined): Promise<void> {
    if (head)
      await noteSeenHead(this.pepperFile, head).catch((error: unknown) => {
        if (!isKeyStoreError(error)) throw error;
        this.#warn(`${error.message}: an older store would not be noticed from here`);
      });
    const replicated = await this.#stored.replicated().catch(() => false);
    if (replicated === false)
      this.#warn("no replica of the store has confirmed the change: a fail-over now would lose it");
  }

  async #unverified(): Promise<readonly KeyRecord[]> {
    const keys = new Map<string, KeyRecord>();
    for await (const [id, text] of this.#stored.all()) {
      const record = readUnverified(text);
      if (record?.id !== id) throw new KeyStoreError("not_valid", "a record of the store of keys is not valid");
      keys.set(id, record);
    }
    return [...keys.values()];
  }

  #missingPepper(): KeyStoreError {
    const text = `${this.pepperFile} is missing; copy the one that the stored keys were made with`;
    return new KeyStoreError("pepper_missing", text);
  }
}

function setOf({ head: { revision, auditHead }, records }: Reading): KeySet {
  return inOrder({ v: 1, revision, auditHead, keys: [...records.values()] });
}

function inOrder(set: KeySet): KeySet {
  const keys = set.keys.toSorted(
    (one, other) => one.created.localeCompare(other.created) || one.id.localeCompare(other.id),
  );
  return { ...set, keys };
}

function amissOf(reading: Reading): readonly string[] {
  const { relation, refused, known } = reading;
  const ids = [...refused].filter(isKeyId).slice(0, 20);
  return [
    ...(refused.size === 0
      ? []
      : [
          `${refused.size} records are left out, as they are not as they were written (${ids.join(", ")}): 'keys restore' drops them`,
        ]),
    ...(relation === "forked" && known
      ? [
          `the store has lost changes up to revision ${known.revision}, as after a fail-over: gateways follow it, but keep records that are newer than its own; make those changes again ('keys list'), or accept what there is with 'keys restore'`,
        ]
      : []),
  ];
}

function changedMeanwhile(): KeyStoreError {
  return new KeyStoreError("conflict", "others change keys all the time; try again");
}
