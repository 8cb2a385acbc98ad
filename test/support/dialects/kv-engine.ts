import { randomBytes } from "node:crypto";
import { encode } from "@msgpack/msgpack";
import { Publisher, Router } from "zeromq";
import { freePort } from "../free-port.ts";
import { type Asked, obedient, type Reply } from "./dialect-server.ts";
import { END_TOKEN, rawPieces, toTokens } from "./stand-in-text.ts";

const BLOCK_TOKENS = 16;
const END_OF_REPLAY = Buffer.alloc(8, 0xff);

export type KvEngineOptions = {
  /** The engine whose event format is used: both are maps, and name salts in fields of their own. */
  readonly form: "vllm" | "sglang";
  readonly blocks?: number;
  readonly replays?: boolean;
  readonly ports?: { readonly events: number; readonly replay: number };
};

export type KvPublisherConfig = {
  readonly publisher: "zmq";
  readonly endpoint: string;
  readonly replay_endpoint: string | null;
};

/** A stand-in engine's cache at the process border: stored and removed blocks are published over ZeroMQ. */
export type KvEngine = {
  readonly publisher: KvPublisherConfig;
  readonly model: (asked: Asked) => Reply;
  readonly cached: () => number;
  /** Drops the next batches; with `forGood` also from the replay. */
  lose(batches: number, forGood?: boolean): void;
  publish(events: readonly unknown[]): Promise<void>;
  stop(): void;
};

/** Starts an engine whose ranks have caches of their own; without a rank in the request it takes them in turn. */
export async function startRankedEngine(options: KvEngineOptions, count: number): Promise<RankedEngine> {
  const ranks = await onNextPorts(options, count);
  let turn = 0;
  return {
    ranks,
    publisher: ranks.map(({ publisher }) => publisher),
    model: (asked) => (ranks[asked.rank ?? turn++ % count] as KvEngine).model(asked),
    stop: () => {
      for (const rank of ranks) rank.stop();
    },
  };
}

export type RankedEngine = Pick<KvEngine, "model" | "stop"> & {
  readonly ranks: readonly KvEngine[];
  readonly publisher: readonly KvPublisherConfig[];
};

async function onNextPorts(options: KvEngineOptions, count: number): Promise<readonly KvEngine[]> {
  for (;;) {
    const events = await freePort();
    const ranks: KvEngine[] = [];
    try {
      for (let rank = 0; rank < count; rank += 1)
        ranks.push(
          await startKvEngine({ ...options, ports: { events: events + rank, replay: events + count + rank } }),
        );
      return ranks;
    } catch {
      // One of the ports is in use.
      for (const rank of ranks) rank.stop();
    }
  }
}

export async function startKvEngine({
  form,
  blocks: most = 10_000,
  replays = true,
  ports,
}: KvEngineOptions): Promise<KvEngine> {
  const publisher = new Publisher({ linger: 0 });
  const router = new Router({ linger: 0 });
  const stop = () => {
    publisher.close();
    router.close();
  };
  try {
    await publisher.bind(`tcp://127.0.0.1:${ports?.events ?? "*"}`);
    await router.bind(`tcp://127.0.0.1:${ports?.replay ?? "*"}`);
  } catch (error) {
    // A thread that ends with an open socket crashes its process.
    stop();
    throw error;
  }
  const kept: { readonly number: Buffer; readonly payload: Uint8Array }[] = [];
  /** The engine's hashes by content: engines do not hash alike. Least recently used first. */
  const held = new Map<string, bigint>();
  let sent = 0n;
  let losing = 0;
  let isForGood = false;
  let cachedTokens = 0;

  void (async () => {
    for await (const [caller, empty, from] of router) {
      if (!caller || !empty || !from) continue;
      for (const { number, payload } of kept)
        if (number.compare(from) >= 0) await router.send([caller, empty, "kv", number, payload]);
      await router.send([caller, empty, "", END_OF_REPLAY, ""]);
    }
  })();

  const publish = async (events: readonly unknown[]): Promise<void> => {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(sent);
    sent += 1n;
    const payload = encode([Date.now() / 1000, events, 0], { useBigInt64: true });
    if (losing > 0) losing -= 1;
    else {
      isForGood = false;
      await publisher.send(["kv", number, payload]);
    }
    if (!isForGood) kept.push({ number, payload });
  };

  const store = (tokens: readonly number[], salt: string): void => {
    const events: unknown[] = [];
    let before = salt;
    let parent: bigint | null = null;
    for (let end = BLOCK_TOKENS; end <= tokens.length; end += BLOCK_TOKENS) {
      const block = tokens.slice(end - BLOCK_TOKENS, end);
      const key = `${before} ${block.join(",")}`;
      const known = held.get(key);
      const hash = known ?? randomBytes(8).readBigUInt64BE() | (1n << 63n);
      held.delete(key);
      held.set(key, hash);
      const common = {
        block_hashes: [hash],
        parent_block_hash: parent,
        token_ids: block,
        block_size: BLOCK_TOKENS,
        lora_id: null,
      };
      const vllm = { lora_name: null, extra_keys: [end === BLOCK_TOKENS ? [salt] : null], group_idx: 0 };
      const more = form === "vllm" ? vllm : { cache_salt: salt };
      if (known === undefined) events.push({ type: "BlockStored", ...common, medium: "GPU", ...more });
      before = key;
      parent = hash;
    }
    for (const [key, hash] of held) {
      if (held.size <= most) break;
      held.delete(key);
      events.push({ type: "BlockRemoved", block_hashes: [hash], medium: "GPU" });
    }
    if (events.length > 0) void publish(events);
  };

  const find = (tokens: readonly number[], salt: string): number => {
    let before = salt;
    for (let end = BLOCK_TOKENS; end <= tokens.length; end += BLOCK_TOKENS) {
      before = `${before} ${tokens.slice(end - BLOCK_TOKENS, end).join(",")}`;
      if (!held.has(before)) return end - BLOCK_TOKENS;
    }
    return tokens.length - (tokens.length % BLOCK_TOKENS);
  };

  const model = (asked: Asked): Reply => {
    const reply = obedient(asked);
    if (reply.kind !== "answer") return reply;
    const salt = String(asked.body.cache_salt);
    cachedTokens = find(asked.tokens, salt);
    store([...asked.tokens, ...toTokens(rawPieces(reply.answer).join("")), END_TOKEN], salt);
    return { kind: "answer", answer: { ...reply.answer, cachedTokens } };
  };

  return {
    publisher: {
      // An engine listens where its endpoint has a wildcard; this one does so on loopback only.
      ...{ publisher: "zmq", endpoint: wildcard(publisher.lastEndpoint) },
      replay_endpoint: replays ? wildcard(router.lastEndpoint) : null,
    },
    model,
    cached: () => cachedTokens,
    lose: (batches, forGood = false) => {
      losing = batches;
      isForGood = forGood;
    },
    publish,
    stop,
  };
}

function wildcard(endpoint: string | null): string {
  return String(endpoint).replace("127.0.0.1", "*");
}
