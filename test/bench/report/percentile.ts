/**
 * Returns the value at share `p`, 0 to 1, of the sorted values, the nearest one from above; NaN when there are none.
 */
export function percentile(values: readonly number[], p: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = Math.ceil(p * sorted.length) - 1;
  return sorted[Math.max(0, at)] ?? Number.NaN;
}

/**
 * Returns the middle of the values, between the two middle ones where their number is even; NaN when there are none.
 */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length / 2;
  const upper = sorted[Math.floor(half)] ?? Number.NaN;
  const lower = sorted[Math.ceil(half) - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}
