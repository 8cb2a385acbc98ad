import { createHash } from "node:crypto";
import { encode } from "@msgpack/msgpack";
import { beforeEach, expect, test } from "vitest";
import { WorkSlices } from "../../../../../../deploy/runtime/time/work-slices.ts";
import { EngineBlocks } from "../../../../../../engine/backends/openai-compatible/kv-events/engine-blocks.ts";
import { readKvEvents } from "../../../../../../engine/backends/openai-compatible/kv-events/kv-event.ts";
import { tiesOf } from "../../../../../../engine/backends/openai-compatible/kv-events/prompt-ties.ts";
import { HeldPrefixes } from "../../../../../../engine/prefixes/held-prefixes.ts";

/*
 * The events of hybrid models as users captured them from vLLM: one event per group and step, whose token_ids span the
 * whole step, while windows and states have hashes of the blocks that they keep only. Hashes are the same in all groups.
 */

/** A group of layers: its kind, its block size, and the ends that it keeps of a step, counted from the last one. */
type Group = { readonly kind: string; readonly size: number; readonly keeps: number };
type Shape = { readonly step: number; readonly groups: readonly Group[]; readonly full: number };

const state = (size: number): Group => ({ kind: "mamba", size, keeps: 1 });
const window = (size: number, tokens: number): Group => ({ kind: "sliding_window_mla", size, keeps: tokens / size });

/** Kimi K3 (AMD-AGI/Infera#98), DeepSeek V4 Flash (llm-d/llm-d-router#2362) and Qwen 3.5 (vllm#44451, #49537). */
const SHAPES: Readonly<Record<string, Shape>> = {
  "Kimi K3": {
    step: 3_840,
    groups: [state(768), state(768), state(768), { kind: "mla_attention", size: 768, keeps: Infinity }],
    full: 3,
  },
  "DeepSeek V4 Flash": {
    step: 8_192,
    groups: [
      { kind: "mla_attention", size: 256, keeps: Infinity },
      ...[window(64, 128), window(64, 128), window(4, 128), window(8, 128)],
    ],
    full: 0,
  },
  "Qwen 3.5": {
    step: 2_112,
    groups: [state(528), state(528), state(528), { kind: "full_attention", size: 528, keeps: Infinity }],
    full: 3,
  },
};

const nameOf = (tokens: readonly number[]) =>
  createHash("sha256").update(tokens.join()).digest().readBigUInt64BE() | (1n << 63n);

/** Returns the events of one step of a prompt, from a position up to another. */
function stepOf({ groups }: Shape, prompt: readonly number[], from: number, to: number) {
  return groups.map(({ kind, size, keeps }, group) => {
    const ends = [];
    for (let end = from + size; end <= to; end += size) ends.push(end);
    return {
      type: "BlockStored",
      block_hashes: ends.slice(-keeps).map((end) => nameOf(prompt.slice(0, end))),
      parent_block_hash: from === 0 ? null : nameOf(prompt.slice(0, from)),
      token_ids: prompt.slice(from, to),
      ...{ block_size: size, lora_id: null, medium: "GPU", lora_name: null },
      extra_keys: ends.slice(-keeps).map((end) => (end === size ? ["salt"] : null)),
      ...{ group_idx: group, kv_cache_spec_kind: kind },
      kv_cache_spec_sliding_window: kind.startsWith("sliding") ? 128 : null,
    };
  });
}

const removedOf = (group: number, prompt: readonly number[], ...ends: readonly number[]) => ({
  ...{ type: "BlockRemoved", medium: "GPU", group_idx: group },
  block_hashes: ends.map((end) => nameOf(prompt.slice(0, end))),
});

let held: HeldPrefixes;
let blocks: EngineBlocks;
beforeEach(() => {
  held = new HeldPrefixes(() => ({ used: 0, total: 0 }));
  blocks = new EngineBlocks(held, { counts: true, nowMs: () => 0 });
});

async function publish(...events: readonly unknown[]): Promise<void> {
  for await (const event of readKvEvents(encode([1, events, 0], { useBigInt64: true }), new WorkSlices()))
    blocks.take(0, [event]);
}

function tie(digests: string, prompt: readonly number[]): void {
  const { blockTokens } = blocks;
  const marks = [...digests].map((digest, index) => ({ digest, messages: index + 1 }));
  const hashes = blocks.hashesOf(prompt, "salt");
  blocks.tie(tiesOf({ model: "m", marks, tokens: prompt, hashes, blockTokens }, blocks));
}

const cachedOf = (prompt: readonly number[]) => blocks.cached(blocks.hashesOf(prompt, "salt"))[0]?.tokens;
const reported = (digest: string) => {
  const one = held.get(digest);
  return one && one.tokens + one.tailTokens;
};

test.each(Object.entries(SHAPES))(
  "of %s the group of full attention carries the blocks, and states and windows say where they can be used",
  async (_name, shape) => {
    const { step, groups, full } = shape;
    const prompt = Array.from({ length: 2 * step }, (_, index) => index % 1_009);
    await publish(...stepOf(shape, prompt, 0, step));
    await publish(...stepOf(shape, prompt, step, 2 * step));
    const size = groups[full]?.size ?? 0;
    expect(blocks.blockTokens).toBe(size);
    expect(blocks.tokens).toBe(2 * step);
    expect(cachedOf(prompt)).toBe(2 * step);
    tie("a", [...prompt, ...prompt.slice(0, 40)]);
    expect(reported("a")).toBe(2 * step);

    // Another prompt that parts within the second step finds the end of the first one.
    const fork = [...prompt.slice(0, step + size + 1), ...Array(step).fill(5)];
    expect(cachedOf(fork)).toBe(step);
    tie("ha", [...prompt, ...prompt.slice(0, 40)]);
    tie("hb", fork);
    expect(reported("h")).toBe(step);

    // Without one of its ends the whole is of no use, however many blocks there are.
    const other = full === 0 ? 1 : 0;
    await publish(removedOf(other, prompt, 2 * step));
    expect([cachedOf(prompt), reported("a")]).toEqual([step, step]);
    await publish(removedOf(other, prompt, step));
    expect([cachedOf(prompt), reported("a"), reported("h")]).toEqual([0, undefined, undefined]);

    // What another group evicts leaves the blocks, and what that of full attention evicts does not.
    expect(blocks.tokens).toBe(2 * step);
    await publish(...stepOf(shape, prompt, 0, step).slice(other, other + 1));
    expect([cachedOf(prompt), reported("a"), reported("h")]).toEqual([step, step, step]);
    await publish(removedOf(full, prompt, step));
    expect(blocks.tokens).toBe(2 * step - size - step);
    expect(cachedOf(prompt)).toBe(0);
  },
);

test("a node that starts while a hybrid evicts learns its groups from the blocks", async () => {
  const shape: Shape = { step: 64, groups: [{ kind: "full_attention", size: 32, keeps: 9 }], full: 0 };
  const prompt = Array.from({ length: 64 }, (_, index) => index);
  await publish(removedOf(0, prompt, 32), ...stepOf(shape, prompt, 0, 64));
  expect(cachedOf(prompt)).toBe(64);
});

test("lower memory that only names blocks and states keeps both in use", async () => {
  const shape = SHAPES["Kimi K3"] as Shape;
  const { step } = shape;
  const prompt = Array.from({ length: step }, (_, index) => index % 1_009);
  await publish(...stepOf(shape, prompt, 0, step));
  // vLLM's offloading without self-describing events.
  const ends = [1, 2, 3, 4, 5].map((count) => nameOf(prompt.slice(0, count * 768)));
  const placeholder = { type: "BlockStored", parent_block_hash: null, token_ids: [], block_size: 0, medium: "CPU" };
  await publish(
    ...[0, 1, 2].map((group) => ({ ...placeholder, block_hashes: ends.slice(-1), group_idx: group })),
    ...ends.map((name) => ({ ...placeholder, block_hashes: [name], group_idx: 3 })),
  );
  await publish(...[0, 1, 2].map((group) => removedOf(group, prompt, step)), removedOf(3, prompt, step, step - 768));
  expect(blocks.cached(blocks.hashesOf(prompt, "salt"))).toEqual([
    { tokens: step, lowerTokens: 2 * 768, heldTokens: 3 * 768 },
  ]);
});
