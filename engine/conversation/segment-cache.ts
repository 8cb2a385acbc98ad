import { hash, randomBytes } from "node:crypto";
import * as z from "zod";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { TenantCache } from "./tenant-cache.ts";

export const tokenCacheSetting = z
  .int()
  .min(0)
  .max(65_536)
  .default(256)
  .describe(
    "Megabytes for tokens of earlier prompts, and as many for their messages, for 10 minutes after their last use: a turn brings only its new part. 0: none.",
  );

/** The bytes of an entry beside its tokens, and those of an array outside the heap more: measured. */
const ENTRY_BYTES = 250;
const ARRAY_BYTES = 1_000;
const KEY_BYTES = 16;
/** Lists up to so many tokens are kept as strings: most segments are shorter than what an array costs. */
const PACKED_TOKENS = 512;

/** The segments of the prompts of one tenant under one isolation salt. */
export type Segments = {
  /** Returns the tokens of a segment; undefined where they are not known. */
  get(text: string, control: boolean): Uint32Array | undefined;
  /** Keeps the tokens of a segment, which are not changed afterwards. */
  keep(text: string, control: boolean, tokens: Uint32Array): void;
};

/**
 * The tokens of segments of prompts, by keyed digests of their texts: a turn of an agent repeats nearly all of them. A
 * tenant finds only what it has sent itself.
 */
export class SegmentCache {
  readonly #entries: TenantCache<Uint32Array | string>;
  readonly #minUnits: number;
  readonly #key = randomBytes(KEY_BYTES).toString("base64");
  /** The tokens that were found, and those that had to be made. */
  foundTokens = 0;
  madeTokens = 0;

  /** At most `megabytes` of entries; 0 keeps none. `minUnits` is the least length of a text, in UTF-16 units. */
  constructor(clock: Pick<Clock, "nowMs" | "after">, megabytes: number, minUnits = 0) {
    this.#minUnits = minUnits;
    this.#entries = new TenantCache(clock, megabytes);
  }

  /** The bytes of all entries. */
  get bytes(): number {
    return this.#entries.bytes;
  }

  of(tenant: string, salt: string): Segments {
    const base = hash("sha256", JSON.stringify([this.#key, tenant, salt]), "base64");
    const keyOf = (text: string, control: boolean) => hash("sha256", `${base}${control ? 1 : 0}${text}`, "base64");
    return {
      get: (text, control) => (text.length < this.#minUnits ? undefined : this.#get(tenant, keyOf(text, control))),
      keep: (text, control, tokens) => {
        this.madeTokens += tokens.length;
        if (text.length >= this.#minUnits) this.#keep(tenant, keyOf(text, control), tokens);
      },
    };
  }

  /** Drops all entries: the engine tokenizes in another way now. */
  clear(): void {
    this.#entries.clear();
  }

  #get(tenant: string, key: string): Uint32Array | undefined {
    const found = this.#entries.get(tenant, key);
    if (found === undefined) return undefined;
    const tokens = unpacked(found);
    this.foundTokens += tokens.length;
    return tokens;
  }

  #keep(tenant: string, key: string, made: Uint32Array): void {
    if (this.#entries.has(tenant, key)) return;
    const tokens = packed(made);
    this.#entries.set(tenant, key, tokens, bytesOf(tokens));
  }
}

function packed(tokens: Uint32Array): Uint32Array | string {
  if (tokens.length > PACKED_TOKENS) return tokens;
  return Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength).toString("utf16le");
}

function unpacked(tokens: Uint32Array | string): Uint32Array {
  if (typeof tokens !== "string") return tokens;
  const list = new Uint32Array(tokens.length / 2);
  Buffer.from(list.buffer).write(tokens, "utf16le");
  return list;
}

function bytesOf(tokens: Uint32Array | string): number {
  return ENTRY_BYTES + (typeof tokens === "string" ? 2 * tokens.length : ARRAY_BYTES + tokens.byteLength);
}
