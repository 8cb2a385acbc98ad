const SMALLEST_MS = 5;
const STEP = Math.SQRT2;

/**
 * Upper bounds of times to first token, in milliseconds: from 5 ms to 15 minutes, in steps of a factor of √2. The last
 * count is for longer times.
 */
export const FIRST_TOKEN_BOUNDS_MS: readonly number[] = Array.from({ length: 36 }, (_, at) => SMALLEST_MS * STEP ** at);

/** Returns zero counts, one for each bound and one for longer times. */
export function noFirstTokens(): number[] {
  return Array.from({ length: FIRST_TOKEN_BOUNDS_MS.length + 1 }, () => 0);
}

export function countFirstToken(counts: number[], ms: number): void {
  const above = Math.ceil(Math.log(ms / SMALLEST_MS) / Math.log(STEP));
  const at = Math.min(counts.length - 1, Math.max(0, above));
  counts[at] = (counts[at] ?? 0) + 1;
}

/**
 * Returns the percentile `share`, from 0 to 1, of the counted times, in milliseconds: the middle of its bucket, so that
 * the error is at most a fifth. Undefined without counts.
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
