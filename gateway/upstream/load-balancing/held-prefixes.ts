/** What an endpoint has told that it holds of one prefix. */
export type HeldPrefix = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The number of tokens from the begin of the prompt to the place of the digest, all of which are held. */
  readonly tokens: number;
  /**
   * The number of tokens that are held behind that place, of the newest prompt and answer that went on there, up to
   * their next digest; 0 where all is held up to that one. With them a prompt that has no later digest is expected to
   * find `tokens` and these in the cache.
   */
  readonly tailTokens: number;
};

/** How full an endpoint's KV cache is, with what is cached and what running generations take up. */
export type CacheFill = {
  /** The number of tokens that are taken up, for all models of the node together. */
  readonly usedTokens: number;
  /** The number of tokens that there is room for; 0 where the node does not know. */
  readonly totalTokens: number;
};

/**
 * What the endpoints of a cluster tell of their caches, by the digests of prompts. It is exact for the endpoints that
 * tell, and says nothing of the others. Asking costs nothing that grows with the number of endpoints, but for those
 * that hold the prefix.
 */
export type HeldPrefixes = {
  /**
   * Returns the endpoints that hold the prefix with this digest (`Boundary.hash`), each once. An endpoint that tells and
   * is not among them does not hold it.
   */
  holders(digest: string): Iterable<HeldPrefix>;
  /**
   * Returns how full an endpoint's cache is; undefined where the endpoint does not tell what it holds, or its connection
   * is down: then what is not known to be held may yet be held.
   */
  fillOf(address: string): CacheFill | undefined;
};

/** The prefixes of a cluster of which no endpoint tells anything. */
export const NOTHING_TOLD: HeldPrefixes = { holders: () => [], fillOf: () => undefined };
