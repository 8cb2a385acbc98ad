import type { RedisClient } from "../../state/redis-options.ts";
import { RedisScript } from "../../state/redis-script.ts";
import { faultOf, type RedisState } from "../../state/redis-state.ts";
import { type KeyRecord, keyRecordSchema } from "../key-record.ts";
import { KeyStoreError } from "../key-store-error.ts";

/*
 * How keys stand in the store that gateways share. All entries have one hash tag, so that a change is one script on one
 * node of a Cluster:
 *
 *   {keys}:head     the revision of the whole, the head of the audit chain, the id of the pepper
 *   {keys}:records  the records by id, as JSON
 *   {keys}:changes  the ids of the records, by the revision of their newest change
 *   {keys}:audit    the lines of the audit log
 *
 * Each change is published as its revision; who has missed that sees it by the head, and reads what has changed since.
 */

const ENTRIES = ["{keys}:head", "{keys}:records", "{keys}:changes", "{keys}:audit"] as const;
const [HEAD, RECORDS, CHANGES, AUDIT] = ENTRIES;

/** The name of the channel on which changes of keys are told. */
export const KEYS_CHANNEL = "{keys}:changed";

/** The most records that are read or written at once. */
const BATCH = 500;

const UPDATE = new RedisScript(`
local request = cjson.decode(ARGV[1])
if tonumber(redis.call('HGET', KEYS[1], 'revision') or '0') ~= request.before then return 0 end
for _, record in ipairs(request.records) do
  redis.call('HSET', KEYS[2], record.id, record.text)
  redis.call('ZADD', KEYS[3], request.revision, record.id)
end
for _, line in ipairs(request.lines) do redis.call('RPUSH', KEYS[4], line) end
redis.call('HSET', KEYS[1], 'revision', request.revision, 'auditHead', request.auditHead, 'pepper', request.pepper)
redis.call('PUBLISH', request.channel, request.revision)
return 1
`);

/** What stands at the head of the stored keys. */
export type KeysHead = {
  /** The number of changes so far, from 0. */
  readonly revision: number;
  /** The head of the audit chain; undefined before the first change. */
  readonly auditHead: string | undefined;
  /** The id of the pepper that the keys were made with; undefined before the first change. */
  readonly pepperId: string | undefined;
};

/** A change of the stored keys. */
export type StoredChange = {
  /** The revision that the change goes out from. */
  readonly before: number;
  /** The head of the audit chain behind the change. */
  readonly auditHead: string;
  /** The id of the pepper. */
  readonly pepperId: string;
  /** The records that are new or have changed; at most `BATCH`. */
  readonly records: readonly KeyRecord[];
  /** The lines of the audit log, one for each record. */
  readonly lines: readonly string[];
};

/** The keys in the store that gateways share. Its methods reject with `KeyStoreError`. */
export class StoredKeys {
  /** The most records of one change. */
  static readonly BATCH = BATCH;
  readonly #state: RedisState;

  constructor(state: RedisState) {
    this.#state = state;
  }

  /** Reads the head. */
  async head(): Promise<KeysHead> {
    const [revision, auditHead, pepperId] = await this.#ask((client) =>
      client.hmget(this.#state.nameOf(HEAD), "revision", "auditHead", "pepper"),
    );
    return { revision: Number(revision ?? 0), auditHead: auditHead ?? undefined, pepperId: pepperId ?? undefined };
  }

  /** Reads all records, in pages; those that change meanwhile may be old or new. */
  async *all(): AsyncGenerator<KeyRecord> {
    const name = this.#state.nameOf(RECORDS);
    let cursor = "0";
    do {
      const [next, flat] = await this.#ask((client) => client.hscan(name, cursor, "COUNT", BATCH));
      for (let at = 1; at < flat.length; at += 2) yield parseRecord(flat[at]);
      cursor = next;
    } while (cursor !== "0");
  }

  /** Reads the records that have changed since a revision, and no others. */
  async *changedSince(revision: number): AsyncGenerator<KeyRecord> {
    const ids = await this.#ask((client) => client.zrangebyscore(this.#state.nameOf(CHANGES), `(${revision}`, "+inf"));
    for (let at = 0; at < ids.length; at += BATCH) {
      const batch = ids.slice(at, at + BATCH);
      const texts = await this.#ask((client) => client.hmget(this.#state.nameOf(RECORDS), ...batch));
      for (const text of texts) yield parseRecord(text ?? undefined);
    }
  }

  /** Makes a change, unless another one came first. Resolves to whether it was made. */
  async change({ before, auditHead, pepperId, records, lines }: StoredChange): Promise<boolean> {
    const request = {
      ...{ before, revision: before + 1, auditHead, pepper: pepperId, lines },
      channel: this.#state.nameOf(KEYS_CHANNEL),
      records: records.map((record) => ({ id: record.id, text: JSON.stringify(record) })),
    };
    try {
      return (await this.#state.run(UPDATE, ENTRIES, JSON.stringify(request))) === 1;
    } catch (cause) {
      throw unreachable(cause);
    }
  }

  /** Reads the text of the audit log; undefined where there is none. */
  async audit(): Promise<string | undefined> {
    const name = this.#state.nameOf(AUDIT);
    const lines: string[] = [];
    for (let more = true; more; ) {
      const page = await this.#ask((client) => client.lrange(name, lines.length, lines.length + BATCH - 1));
      lines.push(...page);
      more = page.length === BATCH;
    }
    return lines.length === 0 ? undefined : lines.map((line) => `${line}\n`).join("");
  }

  async #ask<T>(question: (client: RedisClient) => Promise<T>): Promise<T> {
    try {
      return await this.#state.ask(question);
    } catch (cause) {
      throw unreachable(cause);
    }
  }
}

function unreachable(cause: unknown): KeyStoreError {
  return new KeyStoreError("unreachable", `the store of keys does not answer (${faultOf(cause)})`, { cause });
}

function parseRecord(text: string | undefined): KeyRecord {
  let json: unknown;
  try {
    json = JSON.parse(text ?? "");
  } catch {
    // The parser's own message quotes the text.
    throw new KeyStoreError("not_json", "a record of the store of keys is not valid JSON");
  }
  const checked = keyRecordSchema.safeParse(json);
  if (checked.success) return checked.data;
  const where = checked.error.issues[0]?.path.join(".") || "the top level";
  throw new KeyStoreError("not_valid", `a record of the store of keys is not valid, at ${where}`);
}
