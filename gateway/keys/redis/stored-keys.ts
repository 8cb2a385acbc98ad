import { faultOf, type RedisClient, RedisScript, type RedisState } from "../../state/redis-state.ts";
import { KeyStoreError } from "../key-store.ts";

/*
 * The entries of keys in the store that gateways share. All have one hash tag, so that a change is one script on one
 * node of a Cluster:
 *
 *   {keys}:head        what the keys are, signed: the revision, the newest line of the log, a digest of each index part
 *   {keys}:records     the records by id, and parts of the index by character: the ids that begin with it, each with a
 *                      digest of its record
 *   {keys}:audit       the lines of the audit log
 *   {keys}:newest:ID   the newest revision of a key file in use at a gateway with the pepper ID, signed
 *
 * A change replaces the head, and is published.
 */

const ENTRIES = ["{keys}:head", "{keys}:records", "{keys}:audit"] as const;
const [HEAD, RECORDS, AUDIT] = ENTRIES;

export const KEYS_CHANNEL = "{keys}:changed";

const PAGE = 500;
/** Milliseconds that a change waits for a replica. */
const REPLICA_MS = 1_000;

const UPDATE = new RedisScript(`
local request = cjson.decode(ARGV[1])
if (redis.call('GET', KEYS[1]) or '') ~= request.last then return 0 end
if request.isWhole then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[1], request.head)
for _, record in ipairs(request.records) do redis.call('HSET', KEYS[2], record[1], record[2]) end
for _, line in ipairs(request.lines) do redis.call('RPUSH', KEYS[3], line) end
redis.call('PUBLISH', request.channel, '')
return 1
`);

export type StoredChange = {
  /** Text of the head that the change is based on; empty if there is none. */
  readonly last: string;
  /** Whether no earlier record remains. */
  readonly isWhole: boolean;
  readonly head: string;
  /** Records, and parts of the index. */
  readonly records: readonly (readonly [name: string, text: string])[];
  readonly lines: readonly string[];
};

/** The entries of the keys in the store that gateways share. Its methods reject with `KeyStoreError`. */
export class StoredKeys {
  readonly #state: RedisState;

  constructor(state: RedisState) {
    this.#state = state;
  }

  /** Resolves to the text of the head; empty if the store holds no keys. */
  async head(): Promise<string> {
    return await this.#text(HEAD);
  }

  /** Reads records, or parts of the index, in pages. */
  async *texts(names: readonly string[]): AsyncGenerator<readonly [name: string, text: string | undefined]> {
    for (let at = 0; at < names.length; at += PAGE) {
      const page = names.slice(at, at + PAGE);
      const texts = await this.#ask((client) => client.hmget(this.#state.nameOf(RECORDS), ...page));
      for (const [place, name] of page.entries()) yield [name, texts[place] ?? undefined];
    }
  }

  /** Reads the lines of the audit log in pages. */
  async *lines(): AsyncGenerator<string> {
    for (let at = 0; ; at += PAGE) {
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

  /** Makes a change atomically, unless another change came first. Resolves to whether it was made. */
  async change(change: StoredChange): Promise<boolean> {
    const request = JSON.stringify({ ...change, channel: this.#state.nameOf(KEYS_CHANNEL) });
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
    return await this.#text(`{keys}:newest:${pepperId}`);
  }

  async noteNewest(pepperId: string, text: string): Promise<void> {
    await this.#ask((client) => client.set(this.#state.nameOf(`{keys}:newest:${pepperId}`), text));
  }

  async #text(name: string): Promise<string> {
    return (await this.#ask((client) => client.get(this.#state.nameOf(name)))) ?? "";
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
  if (faultOf(cause) === "WRONGTYPE")
    return new KeyStoreError(
      "not_valid",
      "the keys in the store are of an earlier release: export them by its command line, delete the entries {keys}:*, and 'keys restore EXPORT' here",
    );
  return new KeyStoreError("unreachable", `the store of keys does not answer (${faultOf(cause)})`, { cause });
}
