import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { type Bucket, type BucketRule, fullBucket, refill, take, waitMs } from "./token-bucket.ts";

/** How many networks are remembered; the one that has been quiet for longest is forgotten first. */
const MAX_NETWORKS = 10_000;

/** Failed attempts to open the service, by the network they come from. Never mixed with what keys may use. */
export class AuthFailures {
  readonly #rule: BucketRule;
  readonly #clock: Clock;
  /** The one that failed last stands last. */
  readonly #buckets = new Map<string, Bucket>();

  /** `perMinute`: attempts that a network may fail with; as many at once after a rest. */
  constructor(perMinute: number, clock: Clock) {
    this.#rule = { perMinute, capacity: perMinute };
    this.#clock = clock;
  }

  /** How many networks are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  /** Counts one more. False when it is one too many. */
  add(network: string): boolean {
    const nowMs = this.#clock.nowMs();
    const known = this.#buckets.get(network);
    const bucket = known ? refill(known, this.#rule, nowMs) : fullBucket(this.#rule, nowMs);
    const within = waitMs(bucket, this.#rule, 1) === 0;
    this.#buckets.delete(network);
    this.#buckets.set(network, within ? take(bucket, this.#rule, 1) : bucket);
    const [oldest] = this.#buckets.size > MAX_NETWORKS ? this.#buckets.keys() : [];
    if (oldest !== undefined) this.#buckets.delete(oldest);
    return within;
  }
}
