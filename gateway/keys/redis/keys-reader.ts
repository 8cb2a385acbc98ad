import { WorkTurns } from "../../../deploy/runtime/time/work-turns.ts";
import { type KeyedEntry, lineCheck, NO_LINE } from "../audit-log.ts";
import type { Pepper } from "../key-digest.ts";
import { isKeyId } from "../key-format.ts";
import type { KeyRecord } from "../key-record.ts";
import { KeyStoreError } from "../key-store.ts";
import { parseSeenHead, readSeenHead, type SeenHead, seenHeadText } from "../seen-revision.ts";
import type { StoredHead, StoredKeys } from "./stored-keys.ts";
import { RecordSigner, type SignedRecord } from "./stored-keys.ts";

const TRIES = 5;

/** The state up to which the stored keys were read. */
export type ReadHead = SeenHead & {
  readonly base: number;
  readonly length: number;
  readonly last: string;
};

/**
 * Relation of the stored keys to the states that were known before: `continues` them, has lost some of their changes
 * and may have others instead (`forked`), replaced them by `keys restore` (`restored`), or is another or an older store
 * (`replaced`).
 */
export type Relation = (typeof RELATIONS)[number];

/** From best to worst. */
const RELATIONS = ["continues", "restored", "forked", "replaced"] as const;

export type Reading = {
  readonly head: ReadHead;
  /** Relation of the store to the known states; the worst one if they differ. */
  readonly relation: Relation;
  /** The known state with this relation; undefined if none was known. */
  readonly known: SeenHead | undefined;
  readonly isWhole: boolean;
  readonly records: ReadonlyMap<string, KeyRecord>;
  /** Ids of records that are missing, were not signed with the pepper, or are older than their newest change. */
  readonly refused: ReadonlySet<string>;
};

type Walk = {
  readonly base: number;
  /** The known states, and which of their newest lines were found. */
  readonly known: readonly SeenHead[];
  readonly met: Set<string>;
  /** Revision of the restore that began the history; records that no later line names have it. */
  restored: number | undefined;
  restoredAt: string | undefined;
  readonly revisions: Map<string, number>;
  /** Whether another restore has begun a new history. */
  isOver: boolean;
  head: ReadHead | undefined;
};

/** Reads the keys in the store that gateways share; records and lines have to be signed with the pepper. */
export class KeysReader {
  readonly #stored: StoredKeys;
  readonly #pepper: Pepper;
  readonly #pepperFile: string;
  readonly #check: ReturnType<typeof lineCheck>;
  readonly #signer: RecordSigner;

  constructor(stored: StoredKeys, pepper: Pepper, pepperFile: string) {
    this.#stored = stored;
    this.#pepperFile = pepperFile;
    this.#pepper = pepper;
    this.#check = lineCheck(pepper);
    this.#signer = new RecordSigner(pepper);
  }

  /**
   * Reads all keys and compares them with known states; undefined if there are no keys. Rejects with `KeyStoreError`:
   * `not_signed` if the history cannot be trusted, `pepper_mismatch` for another pepper.
   */
  async whole(known: readonly SeenHead[]): Promise<Reading | undefined> {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const head = await this.#stored.head();
      if (head === undefined) return undefined;
      const reading = await this.#wholeFrom(head, known);
      if (reading) return reading;
    }
    throw new KeyStoreError("conflict", "the keys are restored again and again; try again");
  }

  /** Undefined if the store does not continue that state or another program changed its head. Rejects as `whole`. */
  async since(known: ReadHead, head: StoredHead): Promise<Reading | undefined> {
    if (head.base !== known.base) return undefined;
    const { value: last } = await this.#stored.lines(known.length - 1).next();
    if (last !== known.last) return undefined;
    const walk: Walk = { ...begun(head.base, []), head: known };
    const found = new Map<string, SignedRecord | undefined>();
    await this.#readUntilNewest(walk, found);
    const isOurs = head.revision === known.revision && head.auditHead === known.auditHead;
    return walk.isOver || (walk.head === known && !isOurs) ? undefined : readingOf(walk, found, false);
  }

  /** The newest states that were in use: on this host, and at a gateway that refused the stored keys. */
  async known(): Promise<readonly SeenHead[]> {
    const text = await this.#stored.held();
    const held = parseSeenHead((text && this.#signer.openText("held", text)) ?? "");
    return [await readSeenHead(this.#pepperFile), held].filter((head) => head !== undefined);
  }

  /** Records the state of a gateway that does not follow the store. */
  async noteHeld(head: SeenHead): Promise<void> {
    await this.#stored.noteHeld(this.#signer.signText("held", seenHeadText(head)));
  }

  async #wholeFrom({ base, pepperId }: StoredHead, known: readonly SeenHead[]): Promise<Reading | undefined> {
    if (base === undefined)
      throw new KeyStoreError(
        "not_signed",
        "the stored keys have no history: 'keys restore --unverified' signs them as they stand",
      );
    const walk = begun(base, known);
    const found = new Map<string, SignedRecord | undefined>();
    try {
      await this.#readLines(walk);
    } catch (error) {
      if (walk.head !== undefined || pepperId === this.#pepper.id) throw error;
      const text = `${this.#pepperFile} is not the pepper that the stored keys were made with`;
      throw new KeyStoreError("pepper_mismatch", text, { cause: error });
    }
    const turns = new WorkTurns();
    for await (const [id, text] of this.#stored.all()) {
      if (turns.isOver) await turns.next();
      found.set(id, this.#signer.open(id, text));
    }
    // Records that changed meanwhile may have been read in their old state.
    await this.#readUntilNewest(walk, found);
    return walk.isOver ? undefined : readingOf(walk, found, true);
  }

  async #readUntilNewest(walk: Walk, found: Map<string, SignedRecord | undefined>): Promise<void> {
    for (;;) {
      const named = await this.#readLines(walk);
      if (named.size === 0 || walk.isOver) return;
      for await (const [id, text] of this.#stored.texts([...named])) {
        if (text === undefined) found.delete(id);
        else found.set(id, this.#signer.open(id, text));
      }
    }
  }

  async #readLines(walk: Walk): Promise<ReadonlySet<string>> {
    const named = new Set<string>();
    const turns = new WorkTurns();
    for await (const line of this.#stored.lines(walk.head?.length ?? walk.base)) {
      if (turns.isOver) await turns.next();
      const entry = this.#check(line, walk.head?.auditHead);
      if (!entry || (!walk.head && entry.action !== "restore" && entry.prev !== NO_LINE)) throw notSigned(walk);
      step(walk, entry, line);
      if (walk.isOver) return named;
      if (isKeyId(entry.keyId)) named.add(entry.keyId);
    }
    if (!walk.head) throw notSigned(walk);
    return named;
  }
}

function begun(base: number, known: readonly SeenHead[]): Walk {
  const nothing = { restored: undefined, restoredAt: undefined, isOver: false, head: undefined };
  return { base, known, met: new Set(), revisions: new Map(), ...nothing };
}

function step(walk: Walk, { action, keyId, revision, mac, ts }: KeyedEntry, last: string): void {
  const { head, base } = walk;
  if (action === "restore" && head) walk.isOver = true;
  else if (action === "restore") [walk.restored, walk.restoredAt] = [revision, ts];
  else if (action === "remove") walk.revisions.delete(keyId);
  else if (isKeyId(keyId)) walk.revisions.set(keyId, revision);
  if (walk.known.some(({ auditHead }) => auditHead === mac)) walk.met.add(mac);
  walk.head = { base, id: head?.id ?? mac, revision, auditHead: mac, ts, length: (head?.length ?? base) + 1, last };
}

async function readingOf(
  walk: Walk,
  found: ReadonlyMap<string, SignedRecord | undefined>,
  isWhole: boolean,
): Promise<Reading> {
  const { head, revisions } = walk;
  if (!head) throw notSigned(walk);
  const records = new Map<string, KeyRecord>();
  const refused = new Set<string>();
  const turns = new WorkTurns();
  for (const id of new Set([...found.keys(), ...revisions.keys()])) {
    if (turns.isOver) await turns.next();
    const signed = found.get(id);
    if (signed && signed.revision === (revisions.get(id) ?? walk.restored)) records.set(id, signed.record);
    else refused.add(id);
  }
  const [worst] = walk.known
    .map((known) => ({ known, relation: relationOf(walk, head.id, known) }))
    .sort((one, other) => RELATIONS.indexOf(other.relation) - RELATIONS.indexOf(one.relation));
  return { head, known: undefined, relation: "continues", ...worst, isWhole, records, refused };
}

function relationOf({ met, restoredAt }: Walk, id: string, known: SeenHead): Relation {
  if (known.id === id) return met.has(known.auditHead) ? "continues" : "forked";
  return restoredAt !== undefined && restoredAt > known.ts ? "restored" : "replaced";
}

function notSigned({ base, head }: Walk): KeyStoreError {
  const line = (head?.length ?? base) + 1;
  return new KeyStoreError(
    "not_signed",
    `the audit log of the stored keys is not as it was written, from line ${line} on: put a backup of the store back, or accept keys on purpose: 'keys restore BACKUP', or 'keys restore --unverified' for the records as they stand`,
  );
}

/** Throws KeyStoreError if known keys are gone: `store_replaced`, or `missing` if no state was known. */
export function assertFollows(reading: Reading | undefined, known: readonly SeenHead[]): asserts reading is Reading {
  const lost = reading ? reading.known : known[0];
  if (!reading && !lost) throw new KeyStoreError("missing", "there are no keys in the store");
  if (!lost || (reading && reading.relation !== "replaced")) return;
  throw new KeyStoreError(
    "store_replaced",
    `the store ${reading ? `has revision ${reading.head.revision}` : "holds no keys"}, and revision ${lost.revision} of other keys was in use: put the newer store back, or accept what there is on purpose: 'keys restore' takes the store as it stands, 'keys restore EXPORT' the keys of a file`,
  );
}
