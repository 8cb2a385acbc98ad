/**
 * Why a prompt was not in the cache as far as it might have been. `hit`: it was; `new`: nobody could have it, as it
 * begins a conversation. `client_changed`: the client changed a message that was sent before; `compaction`: it sent a
 * much shorter history instead. `evicted`: the endpoint pushed it out; `moved`: another endpoint has it, which was too
 * busy or full; `belief_expired`: another endpoint had it, so long ago that it was not counted on; `node_restarted`: the
 * endpoint that had it has left or began anew; `other_gateway`: the turn before this one came by another gateway.
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

/** What was expected in the cache for a request, what was there, and why it was less than it might have been. */
export type CacheNote = {
  /** The tokens of the prompt that were expected in the cache of the endpoint. */
  readonly expectedTokens: number;
  /** The tokens of the prompt that were in the cache, as the engine measured. */
  readonly cachedTokens: number;
  /** The tokens that might have been in the cache and were not; 0 where nothing needs explaining. */
  readonly lostTokens: number;
  /** The one reason: that of the most lost tokens. */
  readonly reason: CacheReason;
  /**
   * The number of the first boundary that is another one than in the prompt before: 0 is the tools and leading system
   * messages, n the nth message behind them; of a change in the middle of a long prompt, the last that it can be.
   * Undefined for every reason that is not the client's.
   */
  readonly changedMessage: number | undefined;
};

/** A part of a prompt that may have been lost, and why: how many tokens that were is known once some are measured. */
export type Loss = {
  /** The reason, if this turns out to be the most that was lost. */
  readonly reason: CacheReason;
  /** The size of the prompt up to the end of the part, in bytes. */
  readonly upToBytes: number;
  /** The size of the prompt before the part, in bytes; undefined where all before it may be lost, too. */
  readonly fromBytes: number | undefined;
  /** The tokens before what was lost, where they are known better than by bytes. */
  readonly fromTokens?: number | undefined;
  /** The tokens up to the end of the part, where they are known better than by bytes. */
  readonly upToTokens: number | undefined;
  /** The number of the first boundary that the client changed, as `CacheNote` has it. */
  readonly changedMessage?: number;
};
