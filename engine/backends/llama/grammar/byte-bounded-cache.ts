import type { MonotonicClock } from "../../../../deploy/runtime/time/clock.ts";

/** A value that is kept, whose it is, the bytes that it holds, and when it was used last, in monotonic milliseconds. */
type Entry<Value> = { readonly value: Value; readonly bytes: number; readonly owner: string; readonly usedMs: number };
/** What one owner has in a cache: the keys, of which the first is the one unused for longest, and the bytes together. */
type Owned = { readonly keys: Set<string>; bytes: number };

/** The bounds of a cache. */
export type CacheBounds = {
  /** The most bytes that all values hold together. */
  readonly maxBytes: number;
  /** The most bytes that the values of one owner hold together. */
  readonly maxBytesOfOwner: number;
  /** The time without use after which a value is dropped, in milliseconds. */
  readonly maxUnusedMs: number;
};

/**
 * A map that forgets what was not used for longest once all of it together, or what one owner brought, is larger than
 * its bound: who brings something new each time drives out little that others use. It drops what was not used for a
 * time when that is over, without being asked for anything.
 */
export class ByteBoundedCache<Value> {
  readonly #bounds: CacheBounds;
  readonly #clock: MonotonicClock;
  /** The values, of which the first is the one unused for longest. */
  readonly #entries = new Map<string, Entry<Value>>();
  readonly #owners = new Map<string, Owned>();
  #bytes = 0;
  #sweepDue = false;

  /** Makes an empty cache within these bounds, which keeps times by `clock`. */
  constructor(bounds: CacheBounds, clock: MonotonicClock) {
    this.#bounds = bounds;
    this.#clock = clock;
  }

  /** The number of bytes that the values hold together, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns a value, which then counts as used; undefined where it is not known or forgotten. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#remove(key, entry);
    this.#add(key, entry);
    return entry.value;
  }

  /**
   * Keeps a value that holds about `bytes` bytes and that `owner` brought. One that is larger than a bound is not kept. A
   * value that is there under the same key goes, whoever brought it.
   */
  set(key: string, value: Value, bytes: number, owner: string): void {
    const before = this.#entries.get(key);
    if (before) this.#remove(key, before);
    this.#add(key, { value, bytes, owner });
    const own = this.#owners.get(owner);
    if (own) this.#forget(own.keys, () => own.bytes <= this.#bounds.maxBytesOfOwner);
    this.#forget(this.#entries.keys(), () => this.#bytes <= this.#bounds.maxBytes);
  }

  /** Forgets keys in their order until it is enough. */
  #forget(keys: Iterable<string>, isEnough: () => boolean): void {
    for (const key of keys) {
      if (isEnough()) return;
      const entry = this.#entries.get(key);
      if (entry) this.#remove(key, entry);
    }
  }

  /** Drops what was not used for too long, now and whenever the next value has come to that age. */
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
