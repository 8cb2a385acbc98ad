import type { Registry } from "prom-client";
import { GatewayMetrics } from "../stats/metrics.ts";
import type { UsageCounts } from "./usage-store.ts";

const OTHER = "other";
/** Milliseconds without use (a day) after which a key may lose its series to another key. */
const IDLE_MS = 86_400_000;
const MAX_KEYS = 100;

/**
 * The use of keys as metrics with a bounded number of series: the first `maxKeys` keys have series of their own; a new
 * key takes the series of a key that was unused for a day. All others count as `other`.
 */
export class KeySeries extends GatewayMetrics {
  readonly #maxKeys: number;
  readonly #nowMs: () => number;
  /** Keys with series and the time of their last use, least recently used first. */
  readonly #usedMs = new Map<string, number>();
  readonly #requests = this.metric("svc_key_requests_total");
  readonly #refused = this.metric("svc_key_refused_total");
  readonly #tokens = this.metric("svc_key_tokens_total");

  /** `nowMs` is a monotonic clock in milliseconds; at 0 `maxKeys` all keys count as `other`. */
  constructor(registry: Registry, nowMs: () => number, maxKeys = MAX_KEYS) {
    super(registry);
    this.#maxKeys = maxKeys;
    this.#nowMs = nowMs;
  }

  count(keyId: string, { requests, refused, inputTokens, cachedTokens, outputTokens }: UsageCounts): void {
    const key_id = this.#labelOf(keyId);
    this.#requests.inc({ key_id }, requests);
    this.#refused.inc({ key_id }, refused);
    this.#tokens.inc({ key_id, token_type: "input" }, inputTokens);
    this.#tokens.inc({ key_id, token_type: "cached" }, cachedTokens);
    this.#tokens.inc({ key_id, token_type: "output" }, outputTokens);
  }

  #labelOf(keyId: string): string {
    const nowMs = this.#nowMs();
    const known = this.#usedMs.delete(keyId);
    if (!known && this.#usedMs.size >= this.#maxKeys && !this.#freeOne(nowMs)) return OTHER;
    this.#usedMs.set(keyId, nowMs);
    return keyId;
  }

  /** Removes the series of the least recently used key, if it was unused for a day. Returns whether it did. */
  #freeOne(nowMs: number): boolean {
    const [oldest] = this.#usedMs;
    if (!oldest || nowMs - oldest[1] < IDLE_MS) return false;
    const [key_id] = oldest;
    this.#usedMs.delete(key_id);
    this.#requests.remove({ key_id });
    this.#refused.remove({ key_id });
    for (const token_type of ["input", "cached", "output"]) this.#tokens.remove({ key_id, token_type });
    return true;
  }
}
