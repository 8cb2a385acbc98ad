/**
 * Why fewer tokens of a prompt were cached than possible. `hit`: none were missing; `new`: the prompt begins a
 * conversation, which no endpoint can hold. `client_changed`: the client changed a message that was sent before;
 * `compaction`: it sent a much shorter history instead. `evicted`: the endpoint evicted it; `moved`: another endpoint
 * holds it, which was too busy or full; `belief_expired`: another endpoint held it, but was last used too long ago to
 * rely on; `node_restarted`: the endpoint that held it has left or restarted; `other_gateway`: the previous turn passed
 * through another gateway.
 */
export type CacheReason =
  | "hit"
  | "new"
  | "client_changed"
  | "compaction"
  | "evicted"
  | "moved"
  | "belief_expired"
  | "node_restarted"
  | "other_gateway";

/** The expected and the measured cached tokens of a request, and the reason for the difference. */
export type CacheNote = {
  /** The tokens of the prompt expected in the endpoint's cache. */
  readonly expectedTokens: number;
  /** The tokens of the prompt found in the cache, as the engine measured. */
  readonly cachedTokens: number;
  /** The tokens that could have been cached and were not; 0 where nothing needs explaining. */
  readonly lostTokens: number;
  /** The single reason: that of the most lost tokens. */
  readonly reason: CacheReason;
  /**
   * The index of the first boundary that differs from the previous prompt: 0 is the tools and leading system messages,
   * n the nth message behind them. For a change in the middle of a long prompt, the last possible index. Undefined
   * unless the client caused the loss.
   */
  readonly changedMessage: number | undefined;
};

/** A part of a prompt that may have been lost, and why; the number of lost tokens follows from the measurement. */
export type Loss = {
  /** The reason, if this is the largest loss. */
  readonly reason: CacheReason;
  /** The size of the prompt up to the end of the part, in bytes. */
  readonly upToBytes: number;
  /** The size of the prompt before the part, in bytes; undefined where all of it may be lost, too. */
  readonly fromBytes: number | undefined;
  /** The tokens before the lost part, where known more exactly than by bytes. */
  readonly fromTokens?: number | undefined;
  /** The tokens up to the end of the part, where known more exactly than by bytes. */
  readonly upToTokens: number | undefined;
  /** The index of the first boundary that the client changed, as in `CacheNote`. */
  readonly changedMessage?: number;
};
