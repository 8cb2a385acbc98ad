import { encode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { readKvEvents } from "../../../../../../engine/backends/openai-compatible/kv-events/kv-event.ts";

const batch = (...events: readonly unknown[]) => encode([1.5, events, 0], { useBigInt64: true });
const HASH = 2n ** 63n + 5n;

test("events as maps are read, with what their hashes depend on", () => {
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
  const [event] = readKvEvents(batch(stored));
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

test("events as lists are read, however many fields they have", () => {
  const bytes = Buffer.from("0123456789abcdef", "hex");
  expect(
    readKvEvents(
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
      hashes: [bytes.toString("base64")],
      parent: bytes.toString("base64"),
      tokens: [1, 2],
      blockTokens: 2,
      extras: [""],
    },
    { kind: "removed", hashes: [String(HASH)] },
    { kind: "removed", hashes: [String(HASH)] },
    { kind: "cleared" },
  ]);
});

test("events of other memories and unknown ones are left out, those of further groups say that whole blocks do not tell", () => {
  const events = readKvEvents(
    batch(
      { type: "BlockStored", block_hashes: [1], token_ids: [1], block_size: 1, medium: "CPU" },
      { type: "BlockMoved", block_hashes: [1] },
      { type: "BlockRemoved", block_hashes: [1], medium: "GPU", group_idx: 1 },
    ),
  );
  expect(events).toEqual([{ kind: "mixed" }]);
});

test.each([Buffer.from([0xc1]), encode("no batch"), encode([1, { type: "BlockStored" }])])(
  "what is no batch is refused (%#)",
  (bytes) => {
    expect(() => readKvEvents(bytes)).toThrow(expect.objectContaining({ reason: "PROTOCOL_VIOLATION" }));
  },
);
