import { encode } from "@msgpack/msgpack";
import { beforeEach, expect, test } from "vitest";
import { WorkSlices } from "../../../../../../deploy/runtime/time/work-slices.ts";
import { EngineBlocks } from "../../../../../../engine/backends/openai-compatible/kv-events/engine-blocks.ts";
import {
  type BlockMemory,
  type KvEvent,
  readKvEvents,
  type StoredBlocks,
} from "../../../../../../engine/backends/openai-compatible/kv-events/kv-event.ts";
import type { Tie } from "../../../../../../engine/backends/openai-compatible/kv-events/prompt-ties.ts";
import { tiesOf } from "../../../../../../engine/backends/openai-compatible/kv-events/prompt-ties.ts";
import { chainHashes } from "../../../../../../engine/backends/openai-compatible/kv-events/token-chain.ts";
import { HeldPrefixes } from "../../../../../../engine/prefixes/held-prefixes.ts";

const BLOCK = 4;
let held: HeldPrefixes;
let blocks: EngineBlocks;
let now = 0;
beforeEach(() => {
  held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
  blocks = new EngineBlocks(held, { counts: true, ranks: 2, nowMs: () => now });
});

const tokens = (count: number, first = 1) => Array.from({ length: count }, (_, index) => first + index);

const DEVICE = { group: 0, memory: "device" } as const;
const removed = (hashes: readonly string[], memory: BlockMemory = "device"): KvEvent => ({
  ...{ kind: "removed", group: 0, memory, hashes },
});

/** An event of stored blocks, whose names are their numbers in a conversation. */
function stored(name: string, all: readonly number[], from: number): StoredBlocks {
  const count = Math.floor(all.length / BLOCK);
  const names = Array.from({ length: count - from }, (_, index) => `${name}${from + index}`);
  return {
    kind: "stored",
    ...DEVICE,
    isFull: true,
    hashes: names,
    parent: from === 0 ? undefined : `${name}${from - 1}`,
    tokens: all.slice(from * BLOCK, count * BLOCK),
    blockTokens: BLOCK,
    lookahead: 0,
    extras: names.map(() => ""),
  };
}

/** Ties a digest to the position after `count` tokens of a prompt. */
function tie(digest: string, all: readonly number[], count: number): void {
  const hashes = chainHashes(all.slice(0, count), BLOCK, "");
  const where = { model: "m", hash: hashes.at(-1) ?? 0, depth: hashes.length, tokens: hashes.length * BLOCK };
  const tied: Tie = { ...where, isExact: true, hasTail: true };
  blocks.tie(new Map([[digest, tied]]));
}

test("a prefix is held once all its blocks are, in any order, and its tail grows", () => {
  const prompt = tokens(40);
  tie("a", prompt, 18);
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("x", prompt.slice(0, 24), 0)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 8, lowerTokens: 0 });
  blocks.take(0, [stored("x", prompt, 6)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 24, lowerTokens: 0 });
  tie("b", prompt, 24);
  tie("a", prompt, 18);
  expect([held.get("a")?.tailTokens, held.get("b")?.tailTokens]).toEqual([0, 16]);
});

test("blocks whose hashes cover the tokens behind them are shared only as far as those agree", () => {
  const LOOKAHEAD = 2;
  const behind = (name: string, all: readonly number[]): StoredBlocks => {
    const whole = stored(name, all.slice(0, all.length - LOOKAHEAD), 0);
    const upTo = whole.hashes.length * BLOCK + LOOKAHEAD;
    return { ...whole, tokens: all.slice(0, upTo), lookahead: LOOKAHEAD };
  };
  const cached = (all: readonly number[]) => blocks.cached(blocks.hashesOf(all, ""))[0]?.tokens;
  const prompt = tokens(40);
  blocks.take(0, [behind("x", prompt)]);
  // Nothing follows the last block yet that its hash could cover.
  expect(cached(prompt)).toBe(36);
  expect(cached([...prompt, 41, 42])).toBe(36);
  const branch = [...prompt.slice(0, 16), ...tokens(12, 500)];
  expect(cached(branch)).toBe(12);
  blocks.take(0, [behind("y", branch)]);
  expect(cached(branch)).toBe(24);
  expect(cached(prompt)).toBe(36);
  blocks.take(0, [removed(["y3", "y4", "y5"])]);
  expect([cached(branch), cached(prompt)]).toEqual([12, 36]);
  // Started again without a draft model.
  blocks.take(0, [stored("z", prompt, 0)]);
  expect([cached(prompt), cached(branch)]).toEqual([40, 16]);
});

test("blocks of a long prompt with tokens behind them are those of its parts", async () => {
  const size = 2_000;
  const prompt = tokens(size * BLOCK + 1);
  const names = Array.from({ length: size }, (_, index) => index + 1);
  const event = {
    ...{ type: "BlockStored", block_hashes: names, parent_block_hash: null, block_size: BLOCK },
    token_ids: prompt.slice(0, -1),
    lookahead_token_ids: names.map((_, index) => [prompt[(index + 1) * BLOCK]]),
  };
  for await (const part of readKvEvents(encode([1, [event], 0]), new WorkSlices())) blocks.take(0, [part]);
  expect(blocks.cached(blocks.hashesOf(prompt, ""))[0]?.tokens).toBe(size * BLOCK);
});

test("removing at the end shortens a tail, and removing before it drops everything after", () => {
  const prompt = tokens(40);
  blocks.take(0, [stored("x", prompt, 0)]);
  tie("a", prompt, 16);
  blocks.take(0, [removed(["x9", "x8"])]);
  expect(held.get("a")?.tailTokens).toBe(16);
  blocks.take(0, [removed(["x1"])]);
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("x", prompt.slice(0, 8), 1)]);
  expect(held.get("a")?.tailTokens).toBe(16);
  blocks.take(0, [{ kind: "cleared" }]);
  expect(held.size).toBe(0);
  expect(blocks.tokens).toBe(0);
});

test("a block with two copies, or in two ranks, is held until the last one is removed", () => {
  const prompt = tokens(8);
  tie("a", prompt, 8);
  blocks.take(0, [stored("x", prompt, 0), stored("x", prompt, 0)]);
  blocks.take(1, [stored("y", prompt, 0)]);
  blocks.take(0, [removed(["x1", "x0"])]);
  blocks.forget(1);
  expect(held.get("a")).toBeDefined();
  blocks.take(0, [removed(["x1"])]);
  expect(held.get("a")).toBeUndefined();
});

test("blocks with unreported parents are located in the prompt, and their parents inferred", () => {
  const prompt = tokens(40);
  tie("a", prompt, 16);
  blocks.used({ tokens: prompt, hashes: chainHashes(prompt, BLOCK, "") });
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("x", prompt, 6)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 24, lowerTokens: 0 });
  blocks.take(0, [removed(["x9", "x8", "x7", "x6"])]);
  expect(held.get("a")?.tailTokens).toBe(8);
  // The last named block is removed: nothing is known of those before it any more.
  blocks.take(0, [removed(["x5"])]);
  expect(held.get("a")).toBeUndefined();
  expect(blocks.tokens).toBe(0);
});

test("blocks beyond the limit are not reported", () => {
  blocks = new EngineBlocks(held, { counts: true, maxBlocks: 5, nowMs: () => now });
  const prompt = tokens(40);
  tie("a", prompt, 20);
  tie("b", prompt, 24);
  blocks.take(0, [stored("x", prompt, 0)]);
  expect([held.get("a") !== undefined, held.get("b")]).toEqual([true, undefined]);
});

test("blocks in smaller pieces, as of an index in the same group, are left out", () => {
  const prompt = tokens(16);
  const small: StoredBlocks = { ...stored("z", prompt, 0), hashes: ["z"], tokens: [1], blockTokens: 1, extras: [""] };
  tie("a", prompt, 16);
  blocks.take(0, [small, stored("x", prompt, 0), small]);
  expect(held.get("a")).toMatchObject({ tokens: 16 });
  expect([blocks.blockTokens, blocks.tokens]).toEqual([BLOCK, 16]);
});

test("a prefix that leaves the accelerator stays held while lower memory has it, and counts as loaded", () => {
  const prompt = tokens(40);
  tie("a", prompt, 24);
  const below = { ...stored("x", prompt, 0), memory: "lower" } as const;
  blocks.take(0, [stored("x", prompt, 0), { ...below, tokens: [], blockTokens: 0, extras: [] }]);
  expect(held.get("a")).toMatchObject({ tokens: 24, tailTokens: 16, lowerTokens: 0 });
  blocks.take(0, [removed(["x9", "x8", "x7", "x6", "x5"])]);
  expect(held.get("a")).toMatchObject({ tokens: 24, tailTokens: 16, lowerTokens: 20 });
  expect([blocks.tokens, ...blocks.cached(chainHashes(prompt, BLOCK, ""))]).toEqual([
    20,
    { tokens: 40, lowerTokens: 20, heldTokens: 20 },
    { tokens: 0, lowerTokens: 0, heldTokens: 0 },
  ]);
  blocks.take(0, [removed(["x9", "x8", "x7"], "lower"), stored("x", prompt.slice(0, 24), 5)]);
  expect(held.get("a")).toMatchObject({ tokens: 24, tailTokens: 4, lowerTokens: 4 });
  blocks.take(0, [removed(["x6", "x5", "x4"], "lower"), removed(["x5"])]);
  expect(held.get("a")).toBeUndefined();
  // A lower copy with its tokens is known without a copy on the accelerator.
  blocks.take(1, [{ ...below, hashes: below.hashes.map((name) => `y${name}`) }]);
  expect(held.get("a")).toMatchObject({ tokens: 24, tailTokens: 16, lowerTokens: 40 });
});

test("what the best rank holds is reported, and each rank's part of a prompt is known", () => {
  const prompt = tokens(24);
  const hashes = chainHashes(prompt, BLOCK, "");
  tie("a", prompt, 8);
  blocks.take(0, [stored("x", prompt.slice(0, 8), 0)]);
  blocks.take(1, [stored("x", prompt, 0)]);
  expect(held.get("a")).toMatchObject({ tokens: 8, tailTokens: 16 });
  expect(blocks.cached(hashes).map((part) => part.tokens)).toEqual([8, 24]);
  // Parts in two ranks make no whole.
  blocks.take(1, [removed(["x1"])]);
  expect(held.get("a")).toMatchObject({ tokens: 8, tailTokens: 0 });
  blocks.forget(0);
  expect(held.get("a")).toBeUndefined();
});

const marksOf = (digests: string) => [...digests].map((digest, index) => ({ digest, messages: index + 1 }));
function readPrompt(digests: string, prompt: readonly number[]): ReadonlyMap<string, Tie> {
  const hashes = chainHashes(prompt, BLOCK, "");
  const ties = tiesOf({ model: "m", marks: marksOf(digests), tokens: prompt, hashes, blockTokens: BLOCK }, blocks);
  blocks.tie(ties);
  return ties;
}

test("a digest stands where its prompts part, and is reported with fewer tokens before they do", () => {
  const prompt = tokens(100);
  blocks.take(0, [stored("x", prompt, 0)]);
  const ties = readPrompt("abc", prompt);
  expect(ties.get("a")).toMatchObject({ tokens: 0, isExact: false, hash: ties.get("c")?.hash });
  expect(ties.get("c")).toMatchObject({ tokens: 68, isExact: true, hasTail: true });
  expect(held.get("a")).toMatchObject({ tokens: 0, tailTokens: 0 });
  // The same prompt again shows nothing new, and its continuation keeps the known positions.
  expect(readPrompt("abc", prompt).get("a")).toMatchObject({ isExact: false });
  const next = readPrompt("abcde", [...prompt, ...tokens(100, 500)]);
  expect(next.get("c")).toMatchObject({ tokens: 68, isExact: true });
  expect(next.get("d")).toMatchObject({ tokens: 68, isExact: false });

  const other = [...prompt.slice(0, 30), ...tokens(60, 900)];
  expect(readPrompt("axy", other).get("a")).toMatchObject({ tokens: 28, isExact: true, hasTail: true });
  expect(held.get("a")).toMatchObject({ tokens: 28, tailTokens: 0 });
  expect(readPrompt("abc", prompt).get("a")).toMatchObject({ tokens: 28, isExact: true });
  // Another rendering of the same messages has less in common.
  expect(readPrompt("abc", [...prompt.slice(0, 10), 7, ...prompt.slice(10)]).get("a")).toMatchObject({ tokens: 8 });
  blocks.forget(0);
  expect(readPrompt("abc", tokens(100, 7)).get("a")).toMatchObject({ isExact: false });
});

test("the retention is the idle time of evicted blocks; a lost connection evicts nothing", () => {
  const [old, recent] = [tokens(8), tokens(8, 100)];
  blocks.take(0, [stored("o", old, 0), stored("r", recent, 0)]);
  expect(blocks.retentionMs).toBeUndefined();
  now += 60_000;
  blocks.used({ tokens: recent, hashes: chainHashes(Uint32Array.from(recent), BLOCK, "") });
  now += 30_000;
  blocks.take(0, [removed(["o1"])]);
  expect(blocks.retentionMs).toBe(90_000);
  blocks.take(0, [removed(["r1"])]);
  expect(blocks.retentionMs).toBeCloseTo(90_000 - 0.002 * 60_000);
  const before = blocks.retentionMs;
  now += 1_000_000;
  blocks.forget(0);
  expect(blocks.retentionMs).toBe(before);
});
