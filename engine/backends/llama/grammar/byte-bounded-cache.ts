import type { MonotonicClock } from "../../../../deploy/runtime/time/clock.ts";

type Entry<Value> = { readonly value: Value; readonly bytes: number; readonly owner: string; readonly usedMs: number };
type Owned = { readonly keys: Set<string>; bytes: number };

export type CacheBounds = {
  readonly maxBytes: number;
  readonly maxBytesOfOwner: number;
  readonly maxUnusedMs: number;
};

/** An LRU map with limits on its bytes, in all and per owner, and on idle time. */
export class ByteBoundedCache<Value> {
  readonly #bounds: CacheBounds;
  readonly #clock: MonotonicClock;
  readonly #entries = new Map<string, Entry<Value>>();
  readonly #owners = new Map<string, Owned>();
  #bytes = 0;
  #sweepDue = false;

  constructor(bounds: CacheBounds, clock: MonotonicClock) {
    this.#bounds = bounds;
    this.#clock = clock;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#remove(key, entry);
    this.#add(key, entry);
    return entry.value;
  }

  /** A value larger than a limit is not kept; one with the same key is replaced, also another owner's. */
  set(key: string, value: Value, bytes: number, owner: string): void {
    const before = this.#entries.get(key);
    if (before) this.#remove(key, before);
    this.#add(key, { value, bytes, owner });
    const own = this.#owners.get(owner);
    if (own) this.#forget(own.keys, () => own.bytes <= this.#bounds.maxBytesOfOwner);
    this.#forget(this.#entries.keys(), () => this.#bytes <= this.#bounds.maxBytes);
  }

  #forget(keys: Iterable<string>, isEnough: () => boolean): void {
    for (const key of keys) {
      if (isEnough()) return;
      const entry = this.#entries.get(key);
      if (entry) this.#remove(key, entry);
    }
  }

  #sweep(): void {
    this.#sweepDue = false;
    for (const [key, entry] of this.#entries) {
      const leftMs = entry.usedMs + this.#bounds.maxUnusedMs - this.#clock.nowMs();
      if (leftMs > 0) {
        this.#sweepAfter(leftMs);
        return;
      }
      this.#remove(key, entry);
    }
  }

  #sweepAfter(ms: number): void {
    if (this.#sweepDue) return;
    this.#sweepDue = true;
    this.#clock.after(ms, () => this.#sweep());
  }

  #add(key: string, used: Omit<Entry<Value>, "usedMs">): void {
    const entry = { ...used, usedMs: this.#clock.nowMs() };
    const own = this.#owners.get(entry.owner) ?? { keys: new Set(), bytes: 0 };
    this.#owners.set(entry.owner, own);
    own.keys.add(key);
    own.bytes += entry.bytes;
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
    this.#sweepAfter(this.#bounds.maxUnusedMs);
  }

  #remove(key: string, { owner, bytes }: Entry<Value>): void {
    this.#entries.delete(key);
    this.#bytes -= bytes;
    const own = this.#owners.get(owner);
    if (!own) return;
    own.keys.delete(key);
    own.bytes -= bytes;
    if (own.keys.size === 0) this.#owners.delete(owner);
  }
}
