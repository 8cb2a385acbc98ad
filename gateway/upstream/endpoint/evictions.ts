/** The evictions of an LRU cache, as reported by its node. */
export type Evictions = {
  /** The time for which evicted prefixes had not been used, in milliseconds, as reported. */
  readonly retentionMs: number;
  /**
   * Monotonic milliseconds of the last use of the prefixes evicted most recently: prefixes used later are still cached.
   */
  readonly usedBeforeMs: number;
};

/**
 * Returns the evictions after one more report, which arrived at the monotonic time `atMs`; undefined where the node
 * does not report them, or has evicted nothing. While a node repeats the same report it has evicted nothing more: the
 * kept prefixes then grow older than the evicted ones.
 */
export function evictionsWith(
  before: Evictions | undefined,
  retentionMs: number | undefined,
  atMs: number,
): Evictions | undefined {
  if (retentionMs === undefined) return undefined;
  return before?.retentionMs === retentionMs ? before : { retentionMs, usedBeforeMs: atMs - retentionMs };
}
