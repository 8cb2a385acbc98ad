/** The evictions of a cache that keeps what was used last, as far as its node tells of them. */
export type Evictions = {
  /** The time for which what was evicted had not been used, in milliseconds, as the node tells it. */
  readonly retentionMs: number;
  /** Monotonic milliseconds at which what was evicted was used last: what was used since is still there. */
  readonly usedBeforeMs: number;
};

/**
 * Returns what is known of evictions with one more report, which came at the monotonic time `atMs`; undefined where the
 * node does not say, or has evicted nothing. As long as a node says the same it has evicted nothing more: what it keeps
 * grows older then than what it evicted.
 */
export function evictionsWith(
  before: Evictions | undefined,
  retentionMs: number | undefined,
  atMs: number,
): Evictions | undefined {
  if (retentionMs === undefined) return undefined;
  return before?.retentionMs === retentionMs ? before : { retentionMs, usedBeforeMs: atMs - retentionMs };
}
