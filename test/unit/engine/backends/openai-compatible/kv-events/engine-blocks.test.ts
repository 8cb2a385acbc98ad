import { beforeEach, expect, test } from "vitest";
import { EngineBlocks, type Tie } from "../../../../../../engine/backends/openai-compatible/kv-events/engine-blocks.ts";
import type { KvEvent } from "../../../../../../engine/backends/openai-compatible/kv-events/kv-event.ts";
import { tiesOf } from "../../../../../../engine/backends/openai-compatible/kv-events/prompt-ties.ts";
import { chainHashes } from "../../../../../../engine/backends/openai-compatible/kv-events/token-chain.ts";
import { HeldPrefixes } from "../../../../../../engine/prefixes/held-prefixes.ts";

const BLOCK = 4;
let held: HeldPrefixes;
let blocks: EngineBlocks;
beforeEach(() => {
  held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
  blocks = new EngineBlocks(held, true);
});

const tokens = (count: number, first = 1) => Array.from({ length: count }, (_, index) => first + index);

/** An event of stored blocks, whose names are their numbers in a conversation. */
function stored(name: string, all: readonly number[], from: number, salt = ""): KvEvent {
  const count = Math.floor(all.length / BLOCK);
  const names = Array.from({ length: count - from }, (_, index) => `${name}${from + index}`);
  return {
    kind: "stored",
    hashes: names,
    parent: from === 0 ? undefined : `${name}${from - 1}`,
    tokens: all.slice(from * BLOCK, count * BLOCK),
    blockTokens: BLOCK,
    extras: names.map((_, index) => (from + index === 0 ? salt : "")),
  };
}

/** Ties a digest to the position after `count` tokens of a prompt. */
function tie(digest: string, all: readonly number[], count: number, salt = ""): void {
  const hash = chainHashes(all.slice(0, count), BLOCK, salt).at(-1) ?? 0;
  const where: Tie = { model: "m", hash, tokens: count - (count % BLOCK), isExact: true, hasTail: true };
  blocks.tie(new Map([[digest, where]]));
}

test("a prefix is held once all its blocks are, in any order, and its tail grows", () => {
  const prompt = tokens(40);
  tie("a", prompt, 18);
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("x", prompt.slice(0, 24), 0)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 8 });
  blocks.take(0, [stored("x", prompt, 6)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 24 });
  tie("b", prompt, 24);
  tie("a", prompt, 18);
  expect([held.get("a")?.tailTokens, held.get("b")?.tailTokens]).toEqual([0, 16]);
});

test("removing at the end shortens a tail, and removing before it drops everything after", () => {
  const prompt = tokens(40);
  blocks.take(0, [stored("x", prompt, 0)]);
  tie("a", prompt, 16);
  blocks.take(0, [{ kind: "removed", hashes: ["x9", "x8"] }]);
  expect(held.get("a")?.tailTokens).toBe(16);
  blocks.take(0, [{ kind: "removed", hashes: ["x1"] }]);
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
  blocks.take(0, [{ kind: "removed", hashes: ["x1", "x0"] }]);
  blocks.forget(1);
  expect(held.get("a")).toBeDefined();
  blocks.take(0, [{ kind: "removed", hashes: ["x1"] }]);
  expect(held.get("a")).toBeUndefined();
});

test("the same tokens with another salt are different blocks", () => {
  const prompt = tokens(8);
  tie("a", prompt, 8, "one");
  blocks.take(0, [stored("x", prompt, 0, "other")]);
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("y", prompt, 0, "one")]);
  expect(held.get("a")).toBeDefined();
});

test("blocks with unreported parents are located in the prompt, and their parents inferred", () => {
  const prompt = tokens(40);
  tie("a", prompt, 16);
  blocks.used({ tokens: prompt, hashes: chainHashes(prompt, BLOCK, "") });
  expect(held.get("a")).toBeUndefined();
  blocks.take(0, [stored("x", prompt, 6)]);
  expect(held.get("a")).toEqual({ model: "m", tokens: 16, tailTokens: 24 });
  blocks.take(0, [{ kind: "removed", hashes: ["x9", "x8", "x7", "x6"] }]);
  expect(held.get("a")?.tailTokens).toBe(8);
  // The last named block is removed: nothing is known of those before it any more.
  blocks.take(0, [{ kind: "removed", hashes: ["x5"] }]);
  expect(held.get("a")).toBeUndefined();
  expect(blocks.tokens).toBe(0);
});

test("blocks beyond the limit are not reported", () => {
  blocks = new EngineBlocks(held, true, 5);
  const prompt = tokens(40);
  tie("a", prompt, 20);
  tie("b", prompt, 24);
  blocks.take(0, [stored("x", prompt, 0)]);
  expect([held.get("a") !== undefined, held.get("b")]).toEqual([true, undefined]);
});

test("blocks of different sizes do not determine reusable tokens", () => {
  blocks.take(0, [stored("x", tokens(8), 0)]);
  expect(blocks.isMixed).toBe(false);
  blocks.take(0, [{ kind: "stored", hashes: ["z"], parent: undefined, tokens: [1], blockTokens: 1, extras: [""] }]);
  expect(blocks.isMixed).toBe(true);
});

test("an unknown position is reported with fewer tokens until it is found", () => {
  const prompt = tokens(100);
  const marks = ["a", "b", "c"].map((digest, index) => ({ digest, messages: index + 1 }));
  const hashes = chainHashes(prompt, BLOCK, "");
  const read = { model: "m", marks, tokens: prompt, hashes, blockTokens: BLOCK };
  const ties = tiesOf(read, () => undefined);
  expect(ties.get("a")).toMatchObject({ tokens: 0, isExact: false, hash: ties.get("c")?.hash });
  expect(ties.get("c")).toMatchObject({ tokens: 68, isExact: true, hasTail: true });
  const found = tiesOf(read, (digest) => ties.get(digest), new Map([["a", 10]]));
  expect(found.get("a")).toMatchObject({ tokens: 8, isExact: true, hash: hashes[1] });
  expect(found.get("b")).toMatchObject({ tokens: 8, isExact: false, hash: ties.get("c")?.hash });
  // A position found in another rendering of the same messages is invalid.
  const others = { ...read, tokens: tokens(100, 7), hashes: chainHashes(tokens(100, 7), BLOCK, "") };
  expect(tiesOf(others, (digest) => found.get(digest)).get("a")).toMatchObject({ isExact: false });
  // The end of a prompt is not before a position found in it.
  const late = tiesOf(read, () => undefined, new Map([["b", 80]]));
  expect([late.get("b"), late.get("c")]).toMatchObject([
    { tokens: 80, hasTail: false },
    { tokens: 80, hasTail: true },
  ]);
});
