import { LRUCache } from "lru-cache";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/** `perMinute` tokens flow in evenly, up to `capacity`; both above 0. */
export type BucketRule = { readonly perMinute: number; readonly capacity: number };

export type Bucket = {
  /** Tokens in the bucket: a real number, at most the capacity, and below 0 if more was used than available. */
  readonly level: number;
  /** Time of `level`, in monotonic milliseconds. */
  readonly atMs: number;
};

const MINUTE_MS = 60_000;
/** Bound of the rounding errors of added fractions; far below one token. */
const ROUNDING = 1e-6;

export function fullBucket(rule: BucketRule, nowMs: number): Bucket {
  return { level: rule.capacity, atMs: nowMs };
}

/** Returns the bucket as of `nowMs`. A clock that went back adds no tokens. */
export function refill({ level, atMs }: Bucket, { perMinute, capacity }: BucketRule, nowMs: number): Bucket {
  const elapsedMs = Math.max(0, nowMs - atMs);
  return { level: Math.min(capacity, level + (elapsedMs * perMinute) / MINUTE_MS), atMs: nowMs };
}

/** Added capacity is full at once, tokens beyond the capacity are lost, and debt is unchanged. */
export function resize({ level, atMs }: Bucket, from: BucketRule, to: BucketRule): Bucket {
  const added = Math.max(0, to.capacity - from.capacity);
  return { level: Math.min(to.capacity, level + added), atMs };
}

/** Takes `amount`, into debt if necessary. A negative amount refunds. */
export function take({ level, atMs }: Bucket, { capacity }: BucketRule, amount: number): Bucket {
  return { level: Math.min(capacity, level - amount), atMs };
}

/**
 * Returns the whole milliseconds until `cost` passes; 0 if it passes now. A cost above the capacity waits for a full
 * bucket only, because it could never pass otherwise; it leaves a debt.
 */
export function waitMs({ level }: Bucket, { perMinute, capacity }: BucketRule, cost: number): number {
  const missing = Math.min(cost, capacity) - level;
  return missing <= ROUNDING ? 0 : Math.ceil((missing * MINUTE_MS) / perMinute - ROUNDING);
}

/** Buckets of one rule by name, such as that of a network or of a caller. */
export class TokenBuckets {
  readonly #rule: BucketRule;
  readonly #clock: Pick<Clock, "nowMs">;
  readonly #buckets: LRUCache<string, Bucket>;

  /** Keeps at most `max` buckets; the least recently used one is dropped first. */
  constructor(rule: BucketRule, max: number, clock: Pick<Clock, "nowMs">) {
    this.#rule = rule;
    this.#clock = clock;
    this.#buckets = new LRUCache({ max });
  }

  level(name: string): number {
    return this.#now(name).level;
  }

  take(name: string): void {
    this.#buckets.set(name, take(this.#now(name), this.#rule, 1));
  }

  /** Takes one token if there is one, and returns whether there was. */
  tryTake(name: string): boolean {
    const isThere = this.level(name) >= 1 - ROUNDING;
    if (isThere) this.take(name);
    return isThere;
  }

  #now(name: string): Bucket {
    const known = this.#buckets.get(name);
    const nowMs = this.#clock.nowMs();
    return known ? refill(known, this.#rule, nowMs) : fullBucket(this.#rule, nowMs);
  }
}
