/**
 * What picks see of an endpoint. It says what holds at the moment at which it is read: it is one object for as long as
 * the endpoint is there, which nobody copies, and no policy changes. What a node reports about itself may be a second
 * old; what this gateway counts is exact.
 */
export type EndpointView = {
  /** The address of the endpoint, `host:port`, which names it within its cluster. */
  readonly address: string;
  /** Whether the active health checks found the model on the node serving. */
  readonly healthy: boolean;
  /** Whether the node speaks a contract version that this gateway knows. */
  readonly compatible: boolean;
  /** Whether the node takes no new calls; running ones go on. */
  readonly draining: boolean;
  /** Whether outlier detection has taken the endpoint out. */
  readonly ejected: boolean;
  /** The number of calls of this gateway that run on the endpoint, including those in the node's queue. */
  readonly activeRequests: number;
  /** The number of calls of all gateways that run on the endpoint, as its node reported; 0 where nothing is known. */
  readonly running: number;
  /** The number of calls in the node's own queue, as the node reported; 0 where nothing is known. */
  readonly waiting: number;
  /**
   * The running and waiting calls on the endpoint over the last minutes, averaged from its node's reports, so that all
   * gateways have nearly the same number.
   */
  readonly meanRequests: number;
  /** The share of the node's KV cache that running calls hold, 0 to 1, as the node reported. */
  readonly kvUse: number;
  /** The number of generations that the node runs at once; at least 1. */
  readonly slots: number;
  /** The share of requests that the endpoint gets beside others, Envoy's `load_balancing_weight`; above 0. */
  readonly weight: number;
  /**
   * Monotonic milliseconds at which the endpoint last became available; undefined when it was so from the beginning.
   */
  readonly healthySinceMs: number | undefined;
  /**
   * The prompt tokens that the node has yet to prefill: by this gateway's own ledger or by the node's report, whichever
   * says more.
   */
  readonly outstandingPrefillTokens: number;
  /**
   * The number of gateways that send requests to the node, this one among them, as the node reported; 0 or 1 where no
   * other one is known of.
   */
  readonly gateways: number;
  /** The speed at which the node prefills, in tokens per second; above 0. */
  readonly prefillTokensPerSecond: number;
  /**
   * The speed at which one generation gets its tokens on the node, in tokens per second, above 0; undefined where
   * nothing is known.
   */
  readonly decodeTokensPerSecond: number | undefined;
  /**
   * The time for which the node's cache has kept prefixes that nobody used before it evicted them, in milliseconds, as
   * the node observed it; undefined where the node does not say, or has evicted nothing.
   */
  readonly retentionMs: number | undefined;
  /**
   * The monotonic milliseconds at which what the node's cache has evicted was used last: what was used since is still
   * there. Undefined where the node does not say, or has evicted nothing.
   */
  readonly evictedBeforeMs: number | undefined;
};

/**
 * Returns the number of requests on an endpoint, waiting ones included: the larger of the node's report, which knows
 * the requests of other gateways, and of this gateway's count, which is newer.
 */
export function requestsOn({ activeRequests, running, waiting }: EndpointView): number {
  return Math.max(activeRequests, running + waiting);
}

/** Returns whether an endpoint may get requests. */
export function isAvailable({ healthy, ejected, compatible, draining }: EndpointView): boolean {
  return healthy && !ejected && compatible && !draining;
}
