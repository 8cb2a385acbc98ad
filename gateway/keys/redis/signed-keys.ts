import { hash } from "node:crypto";
import * as z from "zod";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { WorkSlices } from "../../../deploy/runtime/time/work-slices.ts";
import type { RedisState } from "../../state/redis-state.ts";
import { auditLines, type KeyChange } from "../audit-log.ts";
import { type Pepper, signedText, signText } from "../key-digest.ts";
import { ID_LENGTH } from "../key-format.ts";
import { jsonOf, type KeyRecord, keyRecordSchema } from "../key-record.ts";
import { changedMeanwhile, KeyStoreError } from "../key-store.ts";
import { type KeyState, newestFileOf, noteNewest, readNewest } from "../newest-state.ts";
import { StoredKeys } from "./stored-keys.ts";

const TRIES = 5;
/** Most records of a step of a change that may take several: the store serves no other request during a step. */
const BATCH = 500;

const headSchema = z.object({
  pepper: z.string(),
  revision: z.int(),
  index: z.int(),
  mac: z.string(),
  /** Revision of the newest restore: gateways with an earlier state drop what it lacks. */
  restored: z.int(),
  /** Earlier states up to this revision were put back or given up: the store need not continue them. */
  mended: z.int(),
  /** Digests of the parts of the index by name. */
  parts: z.record(z.string(), z.string()),
});

/** The signed head; `text` is its stored form. */
export type Head = KeyState & Omit<z.infer<typeof headSchema>, "pepper"> & { readonly text: string };

/** Parts of the index by name, the first character of ids: a line for each id, with the digest of its record. */
type Parts = ReadonlyMap<string, string>;

/** A part of the store, or all of it. */
export type Reading = {
  readonly head: Head;
  readonly parts: Parts;
  /** Valid records by id, without those that are known. */
  readonly records: Map<string, KeyRecord>;
  /** Ids of known records that the index has no longer. */
  readonly removed: Set<string>;
  /** Ids of records that are missing, or are not those of the index. */
  readonly refused: Set<string>;
};

/** An earlier reading, whose records need not be read again. */
export type Known = Pick<Reading, "head" | "parts" | "refused">;

type Snapshot = Pick<Reading, "head" | "parts">;

/** Digests of records by id; undefined for a removed record. */
type Digests = Map<string, string | undefined>;

/** A change of the keys that `changes` name, or of all (`isWhole`), whatever the store holds; `keys` has their records. */
export type StoredStep = {
  readonly changes: readonly KeyChange[];
  readonly keys: readonly KeyRecord[];
  readonly revision: number;
  readonly isWhole?: boolean;
  readonly restored?: number | undefined;
  readonly mended?: number | undefined;
};

/**
 * The keys in the store that gateways share. The head is signed with the pepper and has the digests of the index, which
 * has those of the records: nothing else is trusted, and a change reads no more than it changes. All methods reject with
 * `KeyStoreError`.
 */
export class SignedKeys {
  readonly stored: StoredKeys;
  readonly #pepper: Pepper;
  readonly #pepperFile: string;

  constructor(state: RedisState, pepper: Pepper, pepperFile: string) {
    this.stored = new StoredKeys(state);
    this.#pepper = pepper;
    this.#pepperFile = pepperFile;
  }

  /**
   * Reads the keys with these ids, by default all; undefined if there are none. With `isAgain` known records are
   * verified, too. Rejects with the fault `not_signed` if head or index cannot be trusted, and with `pepper_mismatch` for
   * another pepper.
   */
  async read(ids?: readonly string[], known?: Known, isAgain = false): Promise<Reading | undefined> {
    const records = new Map<string, KeyRecord>();
    const found = { records, removed: new Set<string>(), refused: new Set(known?.refused) };
    let now: Snapshot | undefined;
    for (let tries = 0; tries < TRIES; tries += 1) {
      const head = await this.#head();
      if (!head) return undefined;
      // What did not fit has not changed meanwhile: it was altered.
      if (now?.head.text === head.text) break;
      const before = now ?? known;
      const parts = await this.#parts(head, before, ids);
      if (!parts) continue;
      const changed = await differing(before?.parts, parts);
      const all = isAgain && !now ? await differing(undefined, parts) : [];
      await this.#readRecords(found, changed, new Map([...all, ...changed]), ids);
      now = { head, parts };
      if (found.refused.size === 0) break;
    }
    if (!now) throw notSigned("the index");
    return { ...now, ...found };
  }

  /** Reads records with these digests, and takes those that have changed, or were refused. */
  async #readRecords(
    { records, removed, refused }: Omit<Reading, "head" | "parts">,
    changed: Digests,
    digests: Digests,
    ids: readonly string[] = [...digests.keys()],
  ): Promise<void> {
    const slices = new WorkSlices();
    for await (const [id, text] of this.stored.texts(ids.filter((one) => digests.has(one)))) {
      if (slices.isOver) await slices.next();
      const digest = digests.get(id);
      const isGenuine = text !== undefined && digestOf(text) === digest;
      if (isGenuine && !changed.has(id) && !refused.has(id)) continue;
      const record = isGenuine ? keyRecordSchema.safeParse(jsonOf(text)).data : undefined;
      for (const each of [records, removed, refused]) each.delete(id);
      if (record) records.set(id, record);
      else if (digest === undefined) removed.add(id);
      else refused.add(id);
    }
  }

  /** Returns whether a head came from a state by changes, or by a restore of all keys. */
  async follows(head: Head, known: KeyState): Promise<boolean> {
    if (known.mac === "" || known.mac === head.mac || head.restored > known.revision) return true;
    return head.revision > known.revision && (await this.stored.line(known.index)).endsWith(`"mac":"${known.mac}"}`);
  }

  /** Resolves to the error of a store that lacks changes of the newest state in use on this host, if it does. */
  async lossOf(head: Head | undefined): Promise<KeyStoreError | undefined> {
    const newest = await readNewest(newestFileOf(this.#pepperFile));
    if (head ? head.mended >= newest.revision || (await this.follows(head, newest)) : newest.revision === 0)
      return undefined;
    return wentBack(newest, head?.revision);
  }

  /** Records the state in use for later starts and commands on this host, unless it lacks changes of the one before. */
  async noteInUse(head: Head): Promise<void> {
    if (!(await this.lossOf(head))) await noteNewest(newestFileOf(this.#pepperFile), head);
  }

  /**
   * Changes what a reading found, in several atomic steps if there are many records and some may be changed without the
   * others. Resolves to undefined if another change came first; a later step rejects with the fault `conflict` then.
   */
  async change(before: Snapshot | undefined, step: StoredStep): Promise<Head | undefined> {
    const { restored, mended, isWhole = false } = step;
    const records = new Map(step.keys.map((record) => [record.id, record]));
    // Each step writes few parts of the index.
    const changes = step.changes.toSorted((one, other) => (partOf(one.keyId) < partOf(other.keyId) ? -1 : 1));
    const size = isWhole ? changes.length : BATCH;
    let now = before;
    for (let at = 0; at < changes.length; at += size) {
      const some = changes.slice(at, at + size);
      const keys = isWhole ? step.keys : some.flatMap(({ keyId }) => records.get(keyId) ?? []);
      // Until the last step the store is no more than it was.
      const flags = at + size < changes.length ? {} : { restored, mended, isWhole };
      const next: Snapshot | undefined = await this.#step(now, {
        ...{ changes: some, keys, revision: step.revision + at / size, ...flags },
      });
      if (!next && at > 0) throw changedMeanwhile();
      if (!next) return undefined;
      now = next;
    }
    return now?.head;
  }

  async #step(before: Snapshot | undefined, step: StoredStep): Promise<Snapshot | undefined> {
    const { changes, keys, revision, restored = before?.head.restored ?? 0, mended = before?.head.mended ?? 0 } = step;
    const based = step.isWhole ? undefined : before;
    const end = based?.head ?? (await this.#end());
    const addition = { changes, revision, pepper: this.#pepper, wallMs: systemClock.wallMs() };
    const { lines, head: mac } = auditLines(addition, end.mac || undefined);
    const names = [...new Set(keys.map(({ id }) => partOf(id)))];
    const parts = based ? await this.#parts(based.head, based, names) : new Map<string, string>();
    if (!parts) return undefined;
    const records = keys.map((record) => [record.id, JSON.stringify(record)] as const);
    const index = names.map((name) => {
      const entries = new Map(entriesOf(parts.get(name)));
      for (const [id, text] of records) if (partOf(id) === name) entries.set(id, digestOf(text));
      return [name, Array.from(entries, ([id, digest]) => `${id} ${digest}`).join("\n")] as const;
    });
    const digests = Object.fromEntries(index.map(([name, text]) => [name, digestOf(text)]));
    const fields = {
      ...{ revision, index: end.index + lines.length, mac, restored, mended },
      parts: { ...based?.head.parts, ...digests },
    };
    const head = signText(this.#pepper, "head", JSON.stringify({ pepper: this.#pepper.id, ...fields }));
    const last = before?.head.text ?? (step.isWhole ? await this.stored.head() : "");
    const made = await this.stored.change({ last, isWhole: !based, head, records: [...index, ...records], lines });
    return made ? { head: { ...fields, text: head }, parts: new Map([...parts, ...index]) } : undefined;
  }

  /** The end of the audit log, whatever it holds. */
  async #end(): Promise<Pick<Head, "index" | "mac">> {
    const mac = /"mac":"([0-9a-f]{64})"\}$/.exec(await this.stored.line(-1))?.[1] ?? "";
    return { index: (await this.stored.length()) - 1, mac };
  }

  async #head(): Promise<Head | undefined> {
    const text = await this.stored.head();
    if (text === "") return undefined;
    const signed = signedText(this.#pepper, "head", text);
    const { data } = headSchema.safeParse(jsonOf(signed ?? text.slice(text.indexOf(" "))));
    if (data && data.pepper !== this.#pepper.id)
      throw new KeyStoreError(
        "pepper_mismatch",
        `${this.#pepperFile} is not the pepper that the stored keys were made with`,
      );
    if (signed === undefined || !data) throw notSigned("the head");
    return { ...data, text };
  }

  /** Reads parts of the index that differ from those before; undefined if they changed meanwhile or were altered. */
  async #parts(head: Head, before?: Snapshot, ids?: readonly string[]): Promise<Map<string, string> | undefined> {
    const names = ids ? [...new Set(ids.map(partOf))].filter((name) => name in head.parts) : Object.keys(head.parts);
    const isKnown = (name: string) => before?.parts.has(name) && before.head.parts[name] === head.parts[name];
    const parts = new Map(names.filter(isKnown).map((name) => [name, before?.parts.get(name) ?? ""]));
    for await (const [name, text] of this.stored.texts(names.filter((one) => !parts.has(one)))) {
      if (text === undefined || digestOf(text) !== head.parts[name]) return undefined;
      parts.set(name, text);
    }
    return parts;
  }
}

function partOf(id: string): string {
  return id.charAt(0);
}

function digestOf(text: string): string {
  return hash("sha256", text, "base64url");
}

function entriesOf(part = ""): (readonly [id: string, digest: string])[] {
  return part === "" ? [] : part.split("\n").map((line) => [line.slice(0, ID_LENGTH), line.slice(ID_LENGTH + 1)]);
}

/** Resolves to the digests of records that differ between two indexes. */
async function differing(before: Parts = new Map(), parts: Parts): Promise<Digests> {
  const digests = new Map<string, string | undefined>();
  const slices = new WorkSlices();
  for (const name of new Set([...before.keys(), ...parts.keys()])) {
    if (before.get(name) === parts.get(name)) continue;
    if (slices.isOver) await slices.next();
    const old = new Map(entriesOf(before.get(name)));
    for (const [id, digest] of entriesOf(parts.get(name))) {
      if (old.get(id) !== digest) digests.set(id, digest);
      old.delete(id);
    }
    for (const id of old.keys()) digests.set(id, undefined);
  }
  return digests;
}

function notSigned(what: string): KeyStoreError {
  return new KeyStoreError(
    "not_signed",
    `${what} of the stored keys is not as it was written: put a backup of the store back, or have the keys of an export taken with 'keys restore EXPORT'`,
  );
}

function wentBack(known: KeyState, revision: number | undefined): KeyStoreError {
  const what = revision === undefined ? "holds no keys, and has" : `has revision ${revision}, and has`;
  return new KeyStoreError(
    "revision_went_back",
    `the store ${what} lost changes up to revision ${known.revision}, which were in use: running gateways put back what they hold; otherwise put the newer store back, or accept what there is on purpose: 'keys restore' takes the store as it stands, 'keys restore EXPORT' the keys of a file`,
  );
}
