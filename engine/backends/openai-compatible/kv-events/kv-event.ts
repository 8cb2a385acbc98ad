import { decodeAsync } from "@msgpack/msgpack";
import type { WorkSlices } from "../../../../deploy/runtime/time/work-slices.ts";
import { EngineError } from "../../../errors.ts";
import { asCount, asFields, asList, asText, type JsonFields } from "../http/json-fields.ts";

/** The bytes of a batch that are decoded at a time: some tenths of a millisecond. */
const PIECE_BYTES = 16 * 1024;
/** The most blocks of one event: the engine reports all blocks of a long prompt at once. */
const MAX_BLOCKS = 512;

/** The memory of a block: the accelerator's, or another from where the engine loads it back: the host's, or a disk. */
export type BlockMemory = "device" | "lower";

/** The group of layers that an event is about. A hybrid model has several, of which each has its own blocks. */
type EventGroup = {
  /** The engine's number of the group; undefined for an engine with one group. */
  readonly group: number | undefined;
  readonly memory: BlockMemory;
};

/** Blocks that an engine has stored in its prefix cache, each following the previous one. */
export type StoredBlocks = EventGroup & {
  readonly kind: "stored";
  /** Whether the group is of full attention, with a block for every token. Windows and states have gaps. */
  readonly isFull: boolean;
  /** The engine's hashes of the blocks; each identifies all tokens up to its end, in all groups alike. */
  readonly hashes: readonly string[];
  /** The engine's hash of the block before the first one; undefined at the start of a prompt. */
  readonly parent: string | undefined;
  /**
   * The tokens of the blocks, then `lookahead` more; none where the engine names blocks only, as some tiers below the
   * accelerator do.
   */
  readonly tokens: readonly number[];
  readonly blockTokens: number;
  /** The number of tokens behind a block that its hash covers, which the engine's draft model has read. */
  readonly lookahead: number;
  /** The other inputs of each block's hash, such as the cache salt for a first block; "" for none. */
  readonly extras: readonly string[];
};

export type KvEvent =
  | StoredBlocks
  | (EventGroup & { readonly kind: "removed"; readonly hashes: readonly string[] })
  | { readonly kind: "cleared" };

/** The kinds of groups that have a block for every token (vllm/v1/kv_cache_interface.py, `KVCacheSpecKind`). */
const FULL_KINDS: ReadonlySet<string> = new Set(["full_attention", "mla_attention", "sink_full_attention"]);
/** The kinds of versions that do not name theirs. */
const UNNAMED_KINDS: ReadonlySet<string> = new Set(["", "unknown"]);

/** The field order of events encoded as lists: those of older versions of vLLM and SGLang. */
const LISTED: Readonly<Record<string, readonly string[]>> = {
  BlockStored: [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
  ],
  BlockRemoved: ["block_hashes", "medium", "group_idx"],
  AllBlocksCleared: [],
};

/**
 * Decodes the events of a batch, in the formats of vLLM (vllm/distributed/kv_events.py) and SGLang
 * (srt/disaggregation/kv_events.py): msgpack of a list of time, events and rank. An event is a list that begins with
 * its name, or a map with the name as `type`. Unknown events, and those of memory that other engines share, are
 * skipped. An event of many blocks is returned as several equivalent ones. The work is sliced by `slices`. Throws
 * `EngineError` PROTOCOL_VIOLATION for an invalid batch.
 */
export async function* readKvEvents(payload: Uint8Array, slices: WorkSlices): AsyncGenerator<KvEvent, void> {
  let batch: unknown;
  try {
    batch = await decodeAsync(pieces(payload, slices), { useBigInt64: true });
  } catch (cause) {
    throw new EngineError("PROTOCOL_VIOLATION", "A batch of KV events is no msgpack.", {}, cause);
  }
  const events = Array.isArray(batch) ? batch[1] : asFields(batch).events;
  if (!Array.isArray(events)) throw new EngineError("PROTOCOL_VIOLATION", "A batch of KV events has no events.");
  for (const event of events)
    for (const read of readEvent(event)) {
      yield read;
      if (slices.isOver) await slices.next();
    }
}

async function* pieces(payload: Uint8Array, slices: WorkSlices): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < payload.length; at += PIECE_BYTES) {
    if (slices.isOver) await slices.next();
    yield payload.subarray(at, at + PIECE_BYTES);
  }
}

function* readEvent(event: unknown): Generator<KvEvent, void> {
  const [name, fields] = namedFields(event);
  if (name === "AllBlocksCleared") return yield { kind: "cleared" };
  if (!Object.hasOwn(LISTED, name) || asText(fields.locality) === "REMOTE") return;
  const memory = /^(GPU)?$/.test(asText(fields.medium)) ? "device" : "lower";
  const group = { group: asCount(fields.group_idx), memory } as const;
  if (name === "BlockStored") yield* storedBlocks(fields, group);
  else
    for (const { names } of partsOf(asList(fields.block_hashes)))
      yield { kind: "removed", ...group, hashes: names.map(hashText) };
}

function* storedBlocks(fields: JsonFields, group: EventGroup): Generator<StoredBlocks, void> {
  const spec = asText(fields.kv_cache_spec_kind);
  const isFull = UNNAMED_KINDS.has(spec) ? (group.group ?? 0) === 0 : FULL_KINDS.has(spec);
  const { tokens, lookahead } = tokensOf(fields);
  const salt = asText(fields.cache_salt);
  const isFirst = fields.parent_block_hash === null || fields.parent_block_hash === undefined;
  // SGLang names the salt with each event: its later blocks have it by their parents.
  const extras = salt !== "" && isFirst ? [[salt]] : asList(fields.extra_keys);
  const blockTokens = asCount(fields.block_size) ?? 0;
  let parent = fields.parent_block_hash;
  for (const { names, from, isLast } of partsOf(asList(fields.block_hashes))) {
    // Tokens beyond a multiple of the block size stay with the last blocks.
    const upTo = isLast ? undefined : (from + names.length) * blockTokens + lookahead;
    yield {
      kind: "stored",
      ...group,
      isFull,
      hashes: names.map(hashText),
      parent: parent === null || parent === undefined ? undefined : hashText(parent),
      tokens: isFull ? tokens.slice(from * blockTokens, upTo).map(Number) : [],
      blockTokens,
      lookahead,
      extras: names.map((_, index) =>
        asList(extras[from + index])
          .map(extraText)
          .join("\n"),
      ),
    };
    parent = names.at(-1);
  }
}

/**
 * Returns the tokens of the blocks and those behind the last: vLLM lists the latter for each block, and SGLang, with a
 * draft model, has each token as a pair with the next.
 */
function tokensOf(fields: JsonFields): Pick<StoredBlocks, "lookahead"> & { readonly tokens: readonly unknown[] } {
  const tokens = asList(fields.token_ids);
  const last = tokens.at(-1);
  if (Array.isArray(last)) return { tokens: [...tokens.map((pair) => asList(pair)[0]), last[1]], lookahead: 1 };
  const behind = last === undefined ? [] : asList(asList(fields.lookahead_token_ids).at(-1));
  return { tokens: behind.length === 0 ? tokens : [...tokens, ...behind], lookahead: behind.length };
}

/** Splits the block names of an event; the parts in order are equivalent to the event. */
function* partsOf(all: readonly unknown[]) {
  for (let from = 0; from === 0 || from < all.length; from += MAX_BLOCKS)
    yield { names: all.slice(from, from + MAX_BLOCKS), from, isLast: from + MAX_BLOCKS >= all.length };
}

function namedFields(event: unknown): readonly [name: string, fields: Readonly<Record<string, unknown>>] {
  if (!Array.isArray(event)) return [asText(asFields(event).type), asFields(event)];
  const [name, ...values] = event;
  const names = LISTED[asText(name)] ?? [];
  return [asText(name), Object.fromEntries(names.map((field, index) => [field, values[index]]))];
}

/** Hashes are 64-bit integers, or bytes. */
function hashText(hash: unknown): string {
  return hash instanceof Uint8Array ? Buffer.from(hash).toString("base64") : String(hash);
}

function extraText(extra: unknown): string {
  if (typeof extra === "string") return extra;
  return JSON.stringify(extra, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)) ?? "";
}
