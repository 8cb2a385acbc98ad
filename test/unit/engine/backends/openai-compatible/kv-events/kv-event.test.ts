import { encode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { WorkSlices } from "../../../../../../deploy/runtime/time/work-slices.ts";
import { EngineBlocks } from "../../../../../../engine/backends/openai-compatible/kv-events/engine-blocks.ts";
import { type KvEvent, readKvEvents } from "../../../../../../engine/backends/openai-compatible/kv-events/kv-event.ts";
import { HeldPrefixes } from "../../../../../../engine/prefixes/held-prefixes.ts";

const batch = (...events: readonly unknown[]) => encode([1.5, events, 0], { useBigInt64: true });
const HASH = 2n ** 63n + 5n;

async function read(payload: Uint8Array, slices = new WorkSlices()): Promise<readonly KvEvent[]> {
  const events: KvEvent[] = [];
  for await (const event of readKvEvents(payload, slices)) events.push(event);
  return events;
}

test("events as maps are decoded, with the other inputs of their hashes", async () => {
  const stored = {
    type: "BlockStored",
    block_hashes: [HASH, 7],
    parent_block_hash: null,
    token_ids: [1, 2, 3, 4],
    block_size: 2,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: [["salt", [Buffer.from("x"), 3n]], null],
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
  };
  const [event] = await read(batch(stored));
  expect(event).toMatchObject({
    kind: "stored",
    hashes: [String(HASH), "7"],
    parent: undefined,
    tokens: [1, 2, 3, 4],
    blockTokens: 2,
  });
  expect(event?.kind === "stored" ? event.extras[0] : "").toMatch(/^salt\n/);
  expect(event?.kind === "stored" ? event.extras[1] : undefined).toBe("");
});

test("events as lists are decoded, with any number of fields", async () => {
  const bytes = Buffer.from("0123456789abcdef", "hex");
  expect(
    await read(
      batch(
        ["BlockStored", [bytes], bytes, [1, 2], 2, null],
        ["BlockRemoved", [HASH], "GPU"],
        ["BlockRemoved", [HASH]],
        ["AllBlocksCleared"],
      ),
    ),
  ).toEqual([
    {
      kind: "stored",
      ...{ group: undefined, memory: "device", isFull: true },
      hashes: [bytes.toString("base64")],
      parent: bytes.toString("base64"),
      tokens: [1, 2],
      blockTokens: 2,
      lookahead: 0,
      extras: [""],
    },
    { kind: "removed", group: undefined, memory: "device", hashes: [String(HASH)] },
    { kind: "removed", group: undefined, memory: "device", hashes: [String(HASH)] },
    { kind: "cleared" },
  ]);
});

test("SGLang's salt is the other input of a first block, and of none behind another", async () => {
  const stored = { type: "BlockStored", token_ids: [1, 2], block_size: 1, cache_salt: "salt", medium: "GPU" };
  const events = await read(
    batch(
      { ...stored, block_hashes: [5, 6], parent_block_hash: null },
      { ...stored, block_hashes: [7, 8], parent_block_hash: 6 },
      { ...stored, block_hashes: [9, 10], parent_block_hash: 0 },
    ),
  );
  expect(events.map((event) => event.kind === "stored" && event.extras)).toEqual([
    ["salt", ""],
    ["", ""],
    ["", ""],
  ]);
});

test.each([
  ["vLLM lists them for each block", { token_ids: [1, 2, 3, 4], lookahead_token_ids: [[3], [5]] }],
  ["SGLang has pairs with the next token", { token_ids: [1, 2, 3, 4].map((token) => [token, token + 1]) }],
])("the tokens behind blocks are those that a draft model has read: %s", async (_engine, tokens) => {
  const stored = { type: "BlockStored", block_hashes: [5, 6], parent_block_hash: null, block_size: 2, ...tokens };
  expect(await read(batch(stored))).toMatchObject([{ tokens: [1, 2, 3, 4, 5], lookahead: 1, blockTokens: 2 }]);
});

test("events name their group and memory, and those of shared memory and unknown ones are skipped", async () => {
  const stored = { type: "BlockStored", block_hashes: [1], token_ids: [1], block_size: 1 };
  const events = await read(
    batch(
      { ...stored, medium: "CPU", group_idx: 3, kv_cache_spec_kind: "mla_attention" },
      { ...stored, medium: "GPU", group_idx: 0, kv_cache_spec_kind: "mamba" },
      { ...stored, group_idx: 0 },
      { ...stored, group_idx: 1 },
      { ...stored, medium: "STORAGE", locality: "REMOTE" },
      { type: "BlockMoved", block_hashes: [1] },
      { type: "BlockRemoved", block_hashes: [1], medium: "CPU", group_idx: 1 },
    ),
  );
  expect(events.map((event) => ("group" in event ? [event.group, event.memory] : []))).toEqual([
    [3, "lower"],
    [0, "device"],
    [0, "device"],
    [1, "device"],
    [1, "lower"],
  ]);
  expect(events.map((event) => event.kind === "stored" && event.isFull)).toEqual([true, false, true, false, false]);
});

test.each([Buffer.from([0xc1]), encode("no batch"), encode([1, { type: "BlockStored" }])])(
  "an invalid batch is refused (%#)",
  async (bytes) => {
    await expect(read(bytes)).rejects.toThrow(expect.objectContaining({ reason: "PROTOCOL_VIOLATION" }));
  },
);

test("a batch of a long prompt is decoded in slices, as equivalent parts in order", async () => {
  const [size, count] = [16, 6_250];
  const tokens = Array.from({ length: size * count }, (_, index) => (index * 7_919) % 150_000);
  const names = Array.from({ length: count }, (_, index) => HASH + BigInt(index));
  const late = names.slice(2_000);
  const payload = batch(
    { type: "BlockStored", block_hashes: names, parent_block_hash: null, token_ids: tokens, block_size: size },
    { type: "BlockRemoved", block_hashes: late },
    ["BlockStored", late, names[1_999], tokens.slice(2_000 * size), size],
    { type: "BlockRemoved", block_hashes: names.slice(5_000) },
  );
  // With this clock every slice is over at once.
  let nowMs = 0;
  const slices = new WorkSlices(1, () => ++nowMs);
  let others = 0;
  const beside = setInterval(() => (others += 1), 0);
  const events = await read(payload, slices).finally(() => clearInterval(beside));
  expect(events.map(({ kind }) => kind)).toEqual(
    [13, 9, 9, 3].flatMap((parts, index) => Array(parts).fill(index % 2 === 0 ? "stored" : "removed")),
  );
  expect(slices.count).toBeGreaterThan(events.length);
  expect(others).toBeGreaterThan(0);
  const stored = events.slice(0, 13).flatMap((event) => (event.kind === "stored" ? [event] : []));
  expect(stored.flatMap((event) => event.tokens)).toEqual(tokens);
  expect(stored.flatMap((event) => event.hashes)).toEqual(names.map(String));
  const blocks = new EngineBlocks(new HeldPrefixes(() => ({ used: 0, total: 0 })), { counts: true, nowMs: () => 0 });
  const left = [13, 22, 31, 34].map((upTo, index, all) => {
    blocks.take(0, events.slice(all[index - 1] ?? 0, upTo));
    return blocks.tokens / size;
  });
  expect(left).toEqual([6_250, 2_000, 6_250, 5_000]);
});
