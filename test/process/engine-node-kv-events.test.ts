import { status } from "@grpc/grpc-js";
import { expect, test, vi } from "vitest";
import type { DialectName } from "../../engine/backends/openai-compatible/engines/engine-dialect.ts";
import { EventFeed, loadZmq } from "../../engine/backends/openai-compatible/kv-events/event-feed.ts";
import type { KvEvent } from "../../engine/backends/openai-compatible/kv-events/kv-event.ts";
import { kvSource } from "../../engine/backends/openai-compatible/kv-events/kv-source.ts";
import { type Message, Role } from "../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../proto/gen/svc/inference/v1/node_service.ts";
import { ask, atEnd, backendOf, type DialectRig, FOREVER, rigOf } from "../support/dialects/dialect-rig.ts";
import { type Asked, startDialectServer } from "../support/dialects/dialect-server.ts";
import {
  type KvEngine,
  type KvEngineOptions,
  startKvEngine,
  startRankedEngine,
} from "../support/dialects/kv-engine.ts";
import { toText, toTokens } from "../support/dialects/stand-in-text.ts";
import type { WatchedPrefixes } from "../support/engine/node-client.ts";
import { eventually } from "../support/eventually.ts";
import { textMessage } from "../support/requests/generate-request.ts";
import { digestOf, digestsOf } from "../support/requests/prefix-digests.ts";

/*
 * In a separate process: the package zeromq ends a process when a thread with sockets is terminated, as in the lanes
 * that share threads. A node has its sockets on the main thread.
 */

const BLOCK = 16;
const KV_PAGE = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1\n';

const SYSTEM = textMessage(Role.SYSTEM, "You are terse. ".repeat(20));
const QUESTION = textMessage(Role.USER, "What is to be done about it? ".repeat(10));

const LONG = textMessage(Role.USER, "What is to be done about it? ".repeat(60));

/** Returns the watcher's token count for the position after some messages. */
const known = (watched: WatchedPrefixes, messages: readonly Message[]) =>
  watched.held.get(digestOf(messages).toString("hex"));

/** Returns all reported tokens from the beginning to the position after some messages, and behind it. */
const reported = (watched: WatchedPrefixes, messages: readonly Message[]) => {
  const held = known(watched, messages);
  return held && held.tokens + held.tailTokens;
};

/** The tokens of the whole blocks of a prompt, its answer and the token that ended it. */
const storedOf = (prompt: unknown, answer: string) => {
  const tokens = (Array.isArray(prompt) ? prompt.length : 0) + toTokens(answer).length + 1;
  return tokens - (tokens % BLOCK);
};

const requestOf = (messages: readonly Message[], tenant = "acme") => ({
  messages,
  tools: [],
  tenant,
  prefixDigests: digestsOf(messages),
});

/** A generation from tokens, as the stand-in's model gets it. */
function asksWith(tokens: readonly number[], salt: string): Asked {
  return { body: { cache_salt: salt }, tokens, prompt: toText(tokens), maxTokens: 1, grammar: "" };
}

type KvRig = DialectRig & { readonly cache: KvEngine; readonly watched: WatchedPrefixes };

async function kvRig(options: KvEngineOptions = { form: "vllm" }): Promise<KvRig> {
  const cache = await startKvEngine(options);
  const { publisher, model } = cache;
  atEnd(cache.stop);
  const rig = await rigOf(options.form, { model, publisher, load: () => KV_PAGE }, { spellings: [] });
  expect(rig.backend.startNotes()).toEqual([]);
  return { ...rig, cache, watched: rig.client.watchPrefixes("svc-qwen") };
}

async function asked(rig: DialectRig, request: ReturnType<typeof requestOf>): Promise<string> {
  const { code, blocks } = await ask(rig, request);
  expect(code).toBe(0);
  return blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])).join("");
}

const FORMS = ["vllm", "sglang"] as const satisfies readonly DialectName[];

test.each(FORMS)("beside %s prefix reports match the tokens that the engine reuses", async (form) => {
  const rig = await kvRig({ form });
  const { watched, cache } = rig;
  expect((await rig.client.describe()).models[0]?.capabilities).toContain(Capability.PREFIX_EVENTS);
  const first = [SYSTEM, QUESTION];
  const text = await asked(rig, requestOf(first));
  const { token_ids: sent, input_ids: alsoSent } = rig.engine.bodies.at(-1) ?? {};
  await eventually(() => expect(reported(watched, first)).toBe(storedOf(sent ?? alsoSent, text)));
  const turn = `<|im_start|>system\n${"You are terse. ".repeat(20)}<|im_end|>\n<|im_start|>user\n`;
  const head = Math.floor(toTokens(turn).length / BLOCK) * BLOCK;
  expect(known(watched, [SYSTEM])).toEqual({ tokens: 0, tailTokens: 0 });

  const second = [...first, textMessage(Role.ASSISTANT, text), textMessage(Role.USER, "And then?")];
  const before = reported(watched, first);
  await asked(rig, requestOf(second));
  expect(cache.cached()).toBe(before);

  const other = [SYSTEM, textMessage(Role.USER, "Something else.")];
  await asked(rig, requestOf(other));
  expect(cache.cached()).toBe(head);
  // The head's position is where its two conversations part.
  await eventually(() => expect(known(watched, [SYSTEM])).toEqual({ tokens: head, tailTokens: 0 }));
  expect(rig.engine.headers.some((headers) => "x-data-parallel-rank" in headers)).toBe(false);
  expect(rig.engine.bodies.some((body) => body.routed_dp_rank !== undefined)).toBe(false);
  if (form === "vllm") expect(watched.kv.total).toBe(16_000);
  expect(watched.kv.used % BLOCK).toBe(0);
});

test.each(FORMS)("beside %s with two ranks conversations go on in the rank that holds them", async (form) => {
  const cache = await startRankedEngine({ form }, 2);
  atEnd(cache.stop);
  const seen: Asked[] = [];
  const model = (one: Asked) => {
    seen.push(one);
    return cache.model(one);
  };
  const { publisher } = cache;
  const rig = await rigOf(form, { model, publisher, load: () => KV_PAGE }, { spellings: [] });
  expect(rig.backend.startNotes()).toEqual([]);
  expect(rig.backend.describe().models[0]?.dataParallelRanks).toBe(2);
  const watched = rig.client.watchPrefixes("svc-qwen");
  const lastOf = (text: string) => seen.findLast(({ prompt }) => prompt.includes(text));
  const texts = ["First.", "Second.", "Third."];
  const talks = texts.map((text) => [textMessage(Role.SYSTEM, text.repeat(40)), QUESTION]);
  await Promise.all(talks.map((talk) => asked(rig, requestOf(talk))));
  const ranks = texts.map((text) => lastOf(text)?.rank);
  expect(new Set(ranks)).toEqual(new Set([0, 1]));
  for (const [index, talk] of talks.entries()) {
    const text = texts[index] ?? "";
    const expected = storedOf(lastOf(text)?.tokens, "forty-two");
    await eventually(() => expect(reported(watched, talk)).toBe(expected));
    await asked(
      rig,
      requestOf([...talk, textMessage(Role.ASSISTANT, "forty-two"), textMessage(Role.USER, "And then?")]),
    );
    const rank = lastOf(text)?.rank;
    expect(rank).toBe(ranks[index]);
    expect(cache.ranks[rank ?? -1]?.cached()).toBe(expected);
  }
});

test.each(FORMS)("beside %s one tenant's cached prompts are not reported for another tenant", async (form) => {
  const rig = await kvRig({ form, blocks: 160 });
  const messages = [SYSTEM, LONG];
  await asked(rig, requestOf(messages));
  await eventually(() => expect(known(rig.watched, messages)).toBeDefined());
  // The same tokens of another tenant evict the first one's.
  const others = { ...requestOf(messages, "other"), prefixDigests: digestsOf([LONG, SYSTEM]) };
  await asked(rig, others);
  await eventually(() => expect(known(rig.watched, messages)).toBeUndefined());
  expect(known(rig.watched, [LONG, SYSTEM])).toBeDefined();
});

test.each(FORMS)("beside %s evicted blocks are reported as dropped, the end before the beginning", async (form) => {
  const rig = await kvRig({ form, blocks: 160 });
  const messages = [SYSTEM, QUESTION];
  await asked(rig, requestOf(messages));
  await eventually(() => expect(known(rig.watched, messages)).toBeDefined());
  await asked(rig, requestOf([textMessage(Role.SYSTEM, "Another one. ".repeat(180))]));
  await eventually(() => expect(known(rig.watched, messages)).toBeUndefined());
  await asked(rig, requestOf(messages));
  expect(rig.cache.cached()).toBe(0);
});

test("batches that arrive while a long one is decoded are processed after it", async () => {
  const cache = await startKvEngine({ form: "vllm" });
  const taken: string[] = [];
  const sink = {
    take: (events: readonly KvEvent[]) => {
      for (const event of events) taken.push("hashes" in event ? `${event.kind} ${event.hashes.at(-1)}` : event.kind);
    },
    forget: () => taken.push("forgotten"),
  };
  const zmq = await loadZmq();
  const source = kvSource(cache.publisher, "127.0.0.1");
  if (!zmq || !source) throw new Error("there are no events");
  const feed = new EventFeed(zmq, source, sink);
  atEnd(cache.stop, () => feed.close());
  await eventually(async () => {
    await cache.publish([{ type: "AllBlocksCleared" }]);
    expect(taken).toContain("cleared");
  });
  const count = 6_250;
  const hashes = Array.from({ length: count }, (_, index) => index);
  const stored = { type: "BlockStored", parent_block_hash: null, block_size: BLOCK };
  await cache.publish([{ ...stored, block_hashes: hashes, token_ids: Array(count * BLOCK).fill(7) }]);
  await cache.publish([{ type: "BlockRemoved", block_hashes: [count - 1] }]);
  await cache.publish([{ ...stored, block_hashes: [count], token_ids: Array(BLOCK).fill(8) }]);
  await eventually(() => expect(taken.at(-1)).toBe(`stored ${count}`));
  const all = taken.slice(taken.lastIndexOf("cleared") + 1);
  expect(all.length).toBeGreaterThan(3);
  expect(all.slice(-3)).toEqual([`stored ${count - 1}`, `removed ${count - 1}`, `stored ${count}`]);
});

test("lost batches are requested again", async () => {
  const rig = await kvRig();
  const messages = [SYSTEM, QUESTION];
  rig.cache.lose(1);
  await asked(rig, requestOf(messages));
  await asked(rig, requestOf([SYSTEM, textMessage(Role.USER, "Something else, and at some length.")]));
  await eventually(() => expect(known(rig.watched, messages)).toBeDefined());
});

test.each([true, false])(
  "batches that are lost for good invalidate earlier reports (requests them: %s)",
  async (replays) => {
    const rig = await kvRig({ form: "vllm", replays });
    const messages = [SYSTEM, QUESTION];
    await asked(rig, requestOf(messages));
    await eventually(() => expect(known(rig.watched, messages)).toBeDefined());
    rig.cache.lose(1, true);
    await asked(rig, requestOf([textMessage(Role.SYSTEM, "Events of these are lost. ".repeat(9))]));
    const later = [SYSTEM, textMessage(Role.USER, "Something else, of 37 words and more. ".repeat(5))];
    await asked(rig, requestOf(later));
    await eventually(() => expect(known(rig.watched, later)).toBeDefined());
    expect(known(rig.watched, messages)).toBeUndefined();
  },
);

test("a publisher that goes silent is noticed: the node announces nothing until findings and events agree", async () => {
  const rig = await kvRig();
  let turns = [SYSTEM, QUESTION];
  const goOn = async () => {
    const text = await asked(rig, requestOf(turns));
    turns = [...turns, textMessage(Role.ASSISTANT, text), textMessage(Role.USER, "And then? ".repeat(20))];
  };
  await goOn();
  await eventually(() => expect(rig.watched.held.size).toBeGreaterThan(0));
  rig.cache.lose(Number.POSITIVE_INFINITY, true);
  for (let turn = 0; turn < 5; turn += 1) await goOn();
  await rig.watched.ended;
  expect(await rig.node.gauge("svc_engine_prefix_contradictions_total")).toBeGreaterThanOrEqual(4);
  expect(rig.node.lines.map(({ msg }) => msg)).toContain(
    "cached prefixes are not announced: the engine repeatedly finds others than its events say",
  );
  const { code } = await rig.client.watchPrefixes("svc-qwen").ended;
  expect(code).toBe(status.UNIMPLEMENTED);

  rig.cache.lose(0);
  // The first turns may come before the events that were missing.
  for (let turn = 0; turn < 30 && !rig.backend.prefixes?.isAnnounced; turn += 1) await goOn();
  const again = rig.client.watchPrefixes("svc-qwen");
  await eventually(() => expect(again.held.size).toBeGreaterThan(0));
});

test("a restarted engine holds none of its earlier blocks, and is tracked further", async () => {
  const rig = await kvRig();
  const messages = [SYSTEM, QUESTION];
  await asked(rig, requestOf(messages));
  await eventually(() => expect(known(rig.watched, messages)).toBeDefined());
  const { endpoint, replay_endpoint: replayEndpoint } = rig.cache.publisher;
  rig.cache.stop();
  await eventually(() => expect(rig.watched.held.size).toBe(0));
  const portOf = (address: string | null) => Number(/\d+$/.exec(address ?? "")?.[0]);
  const ports = { events: portOf(endpoint), replay: portOf(replayEndpoint) };
  const again = await vi.waitFor(() => startKvEngine({ form: "vllm", ports }), { timeout: 50_000, interval: 200 });
  atEnd(again.stop);
  // The prompt is stored again, and its digests are still mapped to it.
  await vi.waitFor(
    async () => {
      again.model(asksWith(toTokens("Are you there? ".repeat(9)), "any"));
      await again.publish([]);
      const { token_ids: tokens, cache_salt: salt } = rig.engine.bodies.at(-1) ?? {};
      rig.engine.next(again.model(asksWith(Array.isArray(tokens) ? tokens : [], String(salt))));
      await asked(rig, requestOf(messages));
      expect(known(rig.watched, messages)).toBeDefined();
    },
    { timeout: 50_000, interval: 200 },
  );
});

test("without matching KV events the node logs a warning and reports no prefixes", async () => {
  const cache = await startKvEngine({ form: "vllm" });
  atEnd(cache.stop);
  const { publisher, model } = cache;
  // It stores the blocks of other tokens than those that it was sent.
  const silent = { publisher, model: (asked: Asked) => model({ ...asked, tokens: asked.tokens.toReversed() }) };
  const engine = await startDialectServer("vllm", silent);
  const backend = backendOf(engine, "vllm");
  atEnd(engine.stop, () => backend.close());
  await backend.start(FOREVER);
  expect(backend.startNotes()).toEqual([
    "Cached prefixes are not reported: the engine's KV events do not match its prompts.",
  ]);
  expect(backend.describe().models[0]?.capabilities).not.toContain(Capability.PREFIX_EVENTS);
});
