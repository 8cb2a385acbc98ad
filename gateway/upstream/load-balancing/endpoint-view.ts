/**
 * A live view of an endpoint: one object for the lifetime of the endpoint, which policies neither copy nor modify.
 * Values reported by the node may be a second old; values counted by this gateway are exact.
 */
export type EndpointView = {
  /** The address of the endpoint, `host:port`, unique within its cluster. */
  readonly address: string;
  /** Whether active health checks found the model SERVING on the node. */
  readonly healthy: boolean;
  /** Whether the gateway supports the node's contract version. */
  readonly compatible: boolean;
  /** Whether the node refuses new calls while running ones finish. */
  readonly draining: boolean;
  readonly ejected: boolean;
  /** The number of this gateway's calls on the endpoint, including those in the node's queue. */
  readonly activeRequests: number;
  /** The number of all gateways' running calls, as the node reported; 0 where it reports none. */
  readonly running: number;
  /** The number of calls in the node's own queue, as the node reported; 0 where it reports none. */
  readonly waiting: number;
  /** The share of the node's KV cache that running calls hold, 0 to 1, as the node reported. */
  readonly kvUse: number;
  /** The number of generations that the node runs concurrently; at least 1. */
  readonly slots: number;
  /** The relative share of requests, Envoy's `load_balancing_weight`; above 0. */
  readonly weight: number;
  /** Monotonic milliseconds at which the endpoint last became available; undefined if it was from the beginning. */
  readonly healthySinceMs: number | undefined;
  /**
   * The prompt tokens to prefill, for each data-parallel rank: by this gateway's ledger, or by the node's report where that is
   * more and other gateways send, too.
   */
  readonly outstandingPrefillTokens: number;
  /** The number of gateways that send requests to the node, as it reported; 0 or 1 where no other is reported. */
  readonly gateways: number;
  /** The node's prefill speed in tokens per second; above 0. */
  readonly prefillTokensPerSecond: number;
  /** The decode speed of one generation on the node, in tokens per second, above 0; undefined where not reported. */
  readonly decodeTokensPerSecond: number | undefined;
  /** Milliseconds for which the cache kept unused prefixes, as reported; undefined before its first eviction. */
  readonly retentionMs: number | undefined;
  /** The conversations that the cache holds, where a further one evicts another; 0 for a cache of blocks, or unknown. */
  readonly keptConversations: number;
  /** Monotonic milliseconds of the last use of the prefixes evicted most recently: later used ones are still cached. */
  readonly evictedBeforeMs: number | undefined;
  /** When the node's process began to serve, in wall-clock milliseconds, or 0: with another value its cache is empty. */
  readonly startedAtMs: number;
};

/**
 * Returns the number of requests on an endpoint, waiting ones included: of a gateway that is alone its own count, else the
 * larger of that and the node's report, which includes the requests of other gateways and is older.
 */
export function requestsOn({ activeRequests, running, waiting, gateways }: EndpointView): number {
  return gateways === 1 ? activeRequests : Math.max(activeRequests, running + waiting);
}

/**
 * The least limit on a node's own queue: long waits belong in the gateway's queue. A node may queue as many requests as
 * it has slots: with a lower limit, a conversation cached there would be prefilled on another node.
 */
const MIN_WAITING = 5;
/** The KV cache use at which a node receives no more requests: the engine would soon preempt running ones. */
const MAX_KV_USE = 0.95;

/** Returns whether the node's queue and cache have capacity. Where none has, the request waits in the gateway. */
export function isWithinCaps({ waiting, kvUse, slots }: EndpointView): boolean {
  return waiting < Math.max(MIN_WAITING, slots) && kvUse < MAX_KV_USE;
}

export function isAvailable({ healthy, ejected, compatible, draining }: EndpointView): boolean {
  return healthy && !ejected && compatible && !draining;
}

/** The warm-up time of an endpoint that came back: its prefix cache is cold. */
const SLOW_START_MS = 30_000;
/** The least share of its weight that an endpoint has during warm-up. */
const MIN_SHARE = 0.1;

/**
 * Returns the share of its weight that an endpoint has at the monotonic time `nowMs`, above 0 and at most 1: Envoy's
 * slow start with a linear rise from the time at which it became available.
 */
export function slowStartShare({ healthySinceMs }: Pick<EndpointView, "healthySinceMs">, nowMs: number): number {
  if (healthySinceMs === undefined) return 1;
  return Math.min(1, Math.max(MIN_SHARE, (nowMs - healthySinceMs) / SLOW_START_MS));
}
