import { LRUCache } from "lru-cache";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Bucket, type BucketRule, fullBucket, refill, take, waitMs } from "./token-bucket.ts";

/** The number of networks that are remembered; the one that has been quiet for longest is forgotten first. */
const MAX_NETWORKS = 10_000;

/** Counts failed attempts to open the service by the network they come from. What keys may use is counted elsewhere. */
export class AuthFailures {
  readonly #rule: BucketRule;
  readonly #clock: Clock;
  readonly #buckets = new LRUCache<string, Bucket>({ max: MAX_NETWORKS });

  /**
   * Starts without any failure. `perMinute` is how many failed attempts a network has per minute; after a rest it may
   * make as many at once.
   */
  constructor(perMinute: number, clock: Clock) {
    this.#rule = { perMinute, capacity: perMinute };
    this.#clock = clock;
  }

  /**
   * The number of networks that are remembered, at most 10,000; the one that has been quiet for longest is forgotten
   * first.
   */
  get size(): number {
    return this.#buckets.size;
  }

  /** Counts one failed attempt of `network`. Returns false when the network has had more than its rate allows. */
  add(network: string): boolean {
    const nowMs = this.#clock.nowMs();
    const known = this.#buckets.get(network);
    const bucket = known ? refill(known, this.#rule, nowMs) : fullBucket(this.#rule, nowMs);
    const within = waitMs(bucket, this.#rule, 1) === 0;
    this.#buckets.set(network, within ? take(bucket, this.#rule, 1) : bucket);
    return within;
  }
}
