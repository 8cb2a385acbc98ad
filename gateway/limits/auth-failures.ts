import { LRUCache } from "lru-cache";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Bucket, type BucketRule, fullBucket, refill, take, waitMs } from "./token-bucket.ts";

/** Tracked networks; the one without failures for the longest time is evicted first. */
const MAX_NETWORKS = 10_000;

/** Counts failed authentications by network. Limits of keys are counted elsewhere. */
export class AuthFailures {
  readonly #rule: BucketRule;
  readonly #clock: Clock;
  readonly #buckets = new LRUCache<string, Bucket>({ max: MAX_NETWORKS });

  /** `perMinute` is the rate of failed attempts per network, and also the burst. */
  constructor(perMinute: number, clock: Clock) {
    this.#rule = { perMinute, capacity: perMinute };
    this.#clock = clock;
  }

  /** Number of tracked networks, at most 10,000. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Counts one failed attempt of `network`. Returns false if the network exceeds its rate. */
  add(network: string): boolean {
    const nowMs = this.#clock.nowMs();
    const known = this.#buckets.get(network);
    const bucket = known ? refill(known, this.#rule, nowMs) : fullBucket(this.#rule, nowMs);
    const within = waitMs(bucket, this.#rule, 1) === 0;
    this.#buckets.set(network, within ? take(bucket, this.#rule, 1) : bucket);
    return within;
  }
}
