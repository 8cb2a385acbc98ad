import { faultOf, type RedisClient, RedisScript, type RedisState } from "../../state/redis-state.ts";
import { KeyStoreError } from "../key-store.ts";

/*
 * The entries of keys in the store that gateways share. All have one hash tag, so that a change is one script on one
 * node of a Cluster:
 *
 *   {keys}:audit       the lines of the audit log, each signed and linked to the one before: the history of the keys
 *   {keys}:records     the records by id, each signed with the revision at which it was written
 *   {keys}:head        the index of the line that began the history (`base`), and fields that differ after each change:
 *                      the revision, the MAC of the newest line, the id of the pepper
 *   {keys}:checkpoint  what the lines up to one of them say, signed, so that a change and a start read from there on
 *   {keys}:newest:ID   the newest state that was in use at a gateway with the pepper ID, signed
 *
 * The lines are authoritative: a record is valid if its signature fits and it has the revision of the newest line that
 * names its key. The head only locates the lines, and a change is published as its revision.
 */

const ENTRIES = ["{keys}:head", "{keys}:records", "{keys}:audit", "{keys}:checkpoint"] as const;
const [HEAD, RECORDS, AUDIT, CHECKPOINT] = ENTRIES;

export const KEYS_CHANNEL = "{keys}:changed";

const PAGE = 500;
/** Milliseconds that a change waits for a replica. */
const REPLICA_MS = 1_000;

const UPDATE = new RedisScript(`
local request = cjson.decode(ARGV[1])
local mac = string.match(redis.call('LINDEX', KEYS[3], -1) or '', '"mac":"(%x+)"}$')
if (mac or '') ~= request.last then return 0 end
if request.begins then
  redis.call('DEL', KEYS[2], KEYS[4])
  redis.call('HSET', KEYS[1], 'base', redis.call('LLEN', KEYS[3]))
end
for _, record in ipairs(request.records) do redis.call('HSET', KEYS[2], record.id, record.text) end
for _, line in ipairs(request.lines) do redis.call('RPUSH', KEYS[3], line) end
if request.checkpoint then redis.call('SET', KEYS[4], request.checkpoint) end
redis.call('HSET', KEYS[1], 'revision', request.revision, 'auditHead', request.auditHead, 'pepper', request.pepper)
redis.call('PUBLISH', request.channel, request.revision)
return 1
`);

export type StoredHead = {
  readonly text: string;
  /** Index of the line that began the history, from 0; undefined if another program has removed it. */
  readonly base: number | undefined;
  readonly revision: number;
  readonly auditHead: string | undefined;
  readonly pepperId: string | undefined;
};

export type StoredChange = {
  /** MAC of the newest line that the change is based on; empty if there is none. */
  readonly last: string;
  /** Whether the change begins a history: no earlier record remains. */
  readonly begins: boolean;
  readonly revision: number;
  readonly auditHead: string;
  readonly pepperId: string;
  readonly records: readonly { readonly id: string; readonly text: string }[];
  readonly lines: readonly string[];
  /** Text of the new checkpoint; undefined if the one before remains. */
  readonly checkpoint: string | undefined;
};

/** The entries of the keys in the store that gateways share. Its methods reject with `KeyStoreError`. */
export class StoredKeys {
  readonly #state: RedisState;

  constructor(state: RedisState) {
    this.#state = state;
  }

  /** Undefined if the store holds no keys. */
  async head(): Promise<StoredHead | undefined> {
    const found = await this.#ask((client) =>
      client.hmget(this.#state.nameOf(HEAD), "revision", "auditHead", "pepper", "base"),
    );
    if (found.every((field) => field === null)) return undefined;
    const [revision, auditHead, pepperId, base] = found;
    const place = Number.parseInt(base ?? "", 10);
    return {
      ...{ text: found.join(" "), base: Number.isSafeInteger(place) && place >= 0 ? place : undefined },
      ...{ revision: Number.parseInt(revision ?? "", 10) || 0, auditHead: auditHead ?? undefined },
      pepperId: pepperId ?? undefined,
    };
  }

  /** Reads all records in pages; one that changes meanwhile may be old or new, or be returned twice. */
  async *all(): AsyncGenerator<readonly [id: string, text: string]> {
    const name = this.#state.nameOf(RECORDS);
    let cursor = "0";
    do {
      const [next, flat] = await this.#ask((client) => client.hscan(name, cursor, "COUNT", PAGE));
      for (let at = 1; at < flat.length; at += 2) yield [flat[at - 1] ?? "", flat[at] ?? ""];
      cursor = next;
    } while (cursor !== "0");
  }

  async *texts(ids: readonly string[]): AsyncGenerator<readonly [id: string, text: string | undefined]> {
    for (let at = 0; at < ids.length; at += PAGE) {
      const page = ids.slice(at, at + PAGE);
      const texts = await this.#ask((client) => client.hmget(this.#state.nameOf(RECORDS), ...page));
      for (const [place, id] of page.entries()) yield [id, texts[place] ?? undefined];
    }
  }

  /** Reads the lines of the audit log in pages, from an index (from 0) on. */
  async *lines(from: number): AsyncGenerator<string> {
    for (let at = from; ; at += PAGE) {
      const page = await this.#ask((client) => client.lrange(this.#state.nameOf(AUDIT), at, at + PAGE - 1));
      yield* page;
      if (page.length < PAGE) return;
    }
  }

  /** Resolves to the line with an index (from 0, or -1 for the newest); empty if there is none. */
  async line(index: number): Promise<string> {
    return (await this.#ask((client) => client.lindex(this.#state.nameOf(AUDIT), index))) ?? "";
  }

  async length(): Promise<number> {
    return await this.#ask((client) => client.llen(this.#state.nameOf(AUDIT)));
  }

  async checkpoint(): Promise<string> {
    return (await this.#ask((client) => client.get(this.#state.nameOf(CHECKPOINT)))) ?? "";
  }

  /** Makes a change atomically, unless another change came first. Resolves to whether it was made. */
  async change({ pepperId: pepper, ...change }: StoredChange): Promise<boolean> {
    const request = JSON.stringify({ ...change, pepper, channel: this.#state.nameOf(KEYS_CHANNEL) });
    try {
      return (await this.#state.run(UPDATE, ENTRIES, request)) === 1;
    } catch (cause) {
      throw unreachable(cause);
    }
  }

  /** Resolves to whether a replica has the writes of this connection within a second; undefined without replicas. */
  async replicated(): Promise<boolean | undefined> {
    return await this.#ask(async (client) => {
      if (!/^connected_slaves:[1-9]/m.test(await client.info("replication"))) return undefined;
      return (await client.wait(1, REPLICA_MS)) > 0;
    });
  }

  async newest(pepperId: string): Promise<string> {
    return (await this.#ask((client) => client.get(this.#newestOf(pepperId)))) ?? "";
  }

  async noteNewest(pepperId: string, text: string): Promise<void> {
    await this.#ask((client) => client.set(this.#newestOf(pepperId), text));
  }

  #newestOf(pepperId: string): string {
    return this.#state.nameOf(`{keys}:newest:${pepperId}`);
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
