/** The part of a prefix that an endpoint reports in its cache. */
export type HeldPrefix = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The number of tokens from the beginning of the prompt to the digest, all of them cached. */
  readonly tokens: number;
  /**
   * The number of cached tokens behind the digest, of the newest prompt and answer that continued there, up to their
   * next digest; 0 where that digest is cached, too. A prompt without a later digest is expected to find `tokens` and
   * these in the cache.
   */
  readonly tailTokens: number;
};

/** The occupancy of an endpoint's KV cache, by cached prefixes and running generations. */
export type CacheFill = {
  /** The occupied tokens, for all models of the node together. */
  readonly usedTokens: number;
  /** The capacity in tokens; 0 where the node does not report it. */
  readonly totalTokens: number;
};

/**
 * The prefixes that the endpoints of a cluster report in their caches, by digest. Exact for the endpoints that report,
 * and empty for the others. A lookup costs time only for the endpoints that hold the prefix.
 */
export type HeldPrefixes = {
  /**
   * Returns the endpoints that hold the prefix with this digest (`Boundary.hash`), each once. A reporting endpoint that
   * is not among them does not hold it.
   */
  holders(digest: string): Iterable<HeldPrefix>;
  /**
   * Returns the occupancy of an endpoint's cache; undefined where the endpoint does not report its cache, or its
   * connection is down: a prefix that is not listed may then still be cached.
   */
  fillOf(address: string): CacheFill | undefined;
};

/** The prefixes of a cluster in which no endpoint reports its cache. */
export const NOTHING_TOLD: HeldPrefixes = { holders: () => [], fillOf: () => undefined };
