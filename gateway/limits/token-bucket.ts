/**
 * The rule of how a bucket fills and what it holds. `perMinute` tokens flow in each minute, evenly; what flows in
 * beyond `capacity` is lost. Both are above 0, and a token is whatever the caller counts.
 */
export type BucketRule = { readonly perMinute: number; readonly capacity: number };

/** A bucket at a moment. */
export type Bucket = {
  /** The tokens in the bucket: a real number, at most the capacity, and below 0 when more was used than was there. */
  readonly level: number;
  /** The moment at which the level was this, in monotonic milliseconds. */
  readonly atMs: number;
};

const MINUTE_MS = 60_000;
/** The error that adding up fractions may bring; far below one token. */
const ROUNDING = 1e-6;

/** Makes a full bucket. */
export function fullBucket(rule: BucketRule, nowMs: number): Bucket {
  return { level: rule.capacity, atMs: nowMs };
}

/** Returns the bucket as it is at `nowMs`. A clock that went back adds nothing. */
export function refill({ level, atMs }: Bucket, { perMinute, capacity }: BucketRule, nowMs: number): Bucket {
  const elapsedMs = Math.max(0, nowMs - atMs);
  return { level: Math.min(capacity, level + (elapsedMs * perMinute) / MINUTE_MS), atMs: nowMs };
}

/**
 * Returns the bucket under another rule: room that was added is there at once, what no longer fits is lost, and debt
 * stays as it is. The bucket has to be refilled to now, as the old rule holds until now.
 */
export function resize({ level, atMs }: Bucket, from: BucketRule, to: BucketRule): Bucket {
  const added = Math.max(0, to.capacity - from.capacity);
  return { level: Math.min(to.capacity, level + added), atMs };
}

/** Takes `amount` out, into debt if need be. A negative amount gives back. */
export function take({ level, atMs }: Bucket, { capacity }: BucketRule, amount: number): Bucket {
  return { level: Math.min(capacity, level - amount), atMs };
}

/**
 * Returns the whole milliseconds until `cost` may be taken; 0 when it may be taken now. A cost above the capacity waits
 * for a full bucket only, as it could never pass otherwise; what it takes then leaves a debt.
 */
export function waitMs({ level }: Bucket, { perMinute, capacity }: BucketRule, cost: number): number {
  const missing = Math.min(cost, capacity) - level;
  return missing <= ROUNDING ? 0 : Math.ceil((missing * MINUTE_MS) / perMinute - ROUNDING);
}

/** Returns the whole milliseconds until the bucket is full. */
export function fullInMs(bucket: Bucket, rule: BucketRule): number {
  return waitMs(bucket, rule, rule.capacity);
}
