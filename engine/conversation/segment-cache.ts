import { hash, randomBytes } from "node:crypto";
import * as z from "zod";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

export const tokenCacheSetting = z
  .int()
  .min(0)
  .max(65_536)
  .default(256)
  .describe(
    "Megabytes for tokens of earlier prompts, so that a turn tokenizes its new part only; kept for 10 minutes after their last use. 0 keeps none.",
  );

const MEGABYTE = 1_000_000;

/** The milliseconds after its last use in which a segment goes: agents pause 446 s at the 95th percentile. */
const IDLE_MS = 600_000;
/** The interval between two looks for idle entries, in milliseconds. */
const SWEEP_MS = 60_000;
/** The bytes of an entry beside its tokens, and those of an array outside the heap more: measured. */
const ENTRY_BYTES = 250;
const ARRAY_BYTES = 1_000;
const KEY_BYTES = 16;
/** Lists up to so many tokens are kept as strings: most segments are shorter than what an array costs. */
const PACKED_TOKENS = 512;

type Entry = { readonly tokens: Uint32Array | string; usedMs: number };

/** The entries of one tenant, least recently used first. */
type Tenant = { readonly entries: Map<string, Entry>; bytes: number };

/** The segments of the prompts of one tenant under one isolation salt. */
export type Segments = {
  /** Returns the tokens of a segment; undefined where they are not known. */
  get(text: string, control: boolean): Uint32Array | undefined;
  /** Keeps the tokens of a segment, which are not changed afterwards. */
  keep(text: string, control: boolean, tokens: Uint32Array): void;
};

/**
 * The tokens of segments of prompts, by keyed digests of their texts: a turn of an agent repeats nearly all of them. A
 * tenant finds only what it has sent itself. Beyond its bound the cache drops the least recently used entries of the
 * tenant that has most, and each entry ten minutes after its last use.
 */
export class SegmentCache {
  readonly #clock: Pick<Clock, "nowMs" | "after">;
  readonly #maxBytes: number;
  readonly #minUnits: number;
  readonly #key = randomBytes(KEY_BYTES).toString("base64");
  readonly #tenants = new Map<string, Tenant>();
  #stopSweep: (() => void) | undefined;
  /** The bytes of all entries. */
  bytes = 0;
  /** The tokens that were found, and those that had to be made. */
  foundTokens = 0;
  madeTokens = 0;

  /** At most `megabytes` of entries; 0 keeps none. `minUnits` is the least length of a text, in UTF-16 units. */
  constructor(clock: Pick<Clock, "nowMs" | "after">, megabytes: number, minUnits = 0) {
    this.#clock = clock;
    this.#minUnits = minUnits;
    this.#maxBytes = megabytes * MEGABYTE;
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
    this.#tenants.clear();
    this.bytes = 0;
    this.#stopSweep?.();
    this.#stopSweep = undefined;
  }

  #get(name: string, key: string): Uint32Array | undefined {
    const tenant = this.#tenants.get(name);
    const entry = tenant?.entries.get(key);
    if (!tenant || !entry) return undefined;
    tenant.entries.delete(key);
    tenant.entries.set(key, entry);
    entry.usedMs = this.#clock.nowMs();
    const tokens = unpacked(entry.tokens);
    this.foundTokens += tokens.length;
    return tokens;
  }

  #keep(name: string, key: string, made: Uint32Array): void {
    const tokens = packed(made);
    const bytes = bytesOf(tokens);
    if (bytes > this.#maxBytes) return;
    const tenant = this.#tenants.get(name) ?? { entries: new Map(), bytes: 0 };
    if (tenant.entries.has(key)) return;
    this.#tenants.set(name, tenant);
    tenant.entries.set(key, { tokens, usedMs: this.#clock.nowMs() });
    tenant.bytes += bytes;
    this.bytes += bytes;
    while (this.bytes > this.#maxBytes) this.#dropOldestOf(this.#largest());
    this.#stopSweep ??= this.#clock.after(SWEEP_MS, () => this.#sweep());
  }

  #largest(): string {
    let largest = "";
    let most = -1;
    for (const [name, { bytes }] of this.#tenants) {
      if (bytes <= most) continue;
      largest = name;
      most = bytes;
    }
    return largest;
  }

  #dropOldestOf(name: string): void {
    const tenant = this.#tenants.get(name);
    const oldest = tenant?.entries.entries().next().value;
    if (!tenant || !oldest) return;
    const [key, { tokens }] = oldest;
    tenant.entries.delete(key);
    tenant.bytes -= bytesOf(tokens);
    this.bytes -= bytesOf(tokens);
    if (tenant.entries.size === 0) this.#tenants.delete(name);
  }

  #sweep(): void {
    this.#stopSweep = undefined;
    const until = this.#clock.nowMs() - IDLE_MS;
    for (const [name, { entries }] of this.#tenants)
      for (const { usedMs } of [...entries.values()]) {
        if (usedMs > until) break;
        this.#dropOldestOf(name);
      }
    if (this.bytes > 0) this.#stopSweep = this.#clock.after(SWEEP_MS, () => this.#sweep());
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
