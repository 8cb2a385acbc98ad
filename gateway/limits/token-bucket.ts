/**
 * How a bucket refills. `perMinute` tokens flow in per minute, evenly, up to `capacity`. Both are above 0; the caller
 * defines the token.
 */
export type BucketRule = { readonly perMinute: number; readonly capacity: number };

/** The state of a bucket. */
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

/**
 * Returns the bucket under another rule: added capacity is full at once, tokens beyond the capacity are lost, and debt
 * is unchanged. The bucket must be refilled first, because the old rule applies until now.
 */
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

/** Returns the whole milliseconds until the bucket is full. */
export function fullInMs(bucket: Bucket, rule: BucketRule): number {
  return waitMs(bucket, rule, rule.capacity);
}
