const SMALLEST_MS = 5;
const STEP = Math.SQRT2;

/**
 * The upper bounds by which times to first token are counted, in milliseconds: from 5 ms to 15 minutes, each one √2 above
 * the one before. The last place counts all that took longer.
 */
export const FIRST_TOKEN_BOUNDS_MS: readonly number[] = Array.from({ length: 36 }, (_, at) => SMALLEST_MS * STEP ** at);

/** Returns counts of zero, a place for each bound and one for what took longer. */
export function noFirstTokens(): number[] {
  return Array.from({ length: FIRST_TOKEN_BOUNDS_MS.length + 1 }, () => 0);
}

/** Counts a first token that came after `ms` milliseconds. */
export function countFirstToken(counts: number[], ms: number): void {
  const above = Math.ceil(Math.log(ms / SMALLEST_MS) / Math.log(STEP));
  const at = Math.min(counts.length - 1, Math.max(0, above));
  counts[at] = (counts[at] ?? 0) + 1;
}

/**
 * Returns the time below which `share` of the counted times lie, from 0 to 1, in milliseconds: the middle of its step, so
 * that it is wrong by a fifth at most. Undefined where nothing was counted.
 */
export function percentile(counts: readonly number[], share: number): number | undefined {
  const all = counts.reduce((sum, count) => sum + count, 0);
  let left = Math.max(1, share * all);
  for (const [at, count] of counts.entries()) {
    left -= count;
    if (count > 0 && left <= 0) return (SMALLEST_MS * STEP ** at) / Math.sqrt(STEP);
  }
  return undefined;
}
