/** Returns the percentile `p` (0 to 1) of the values, the nearest value from above; NaN without values. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = Float64Array.from(values).sort();
  const at = Math.ceil(p * sorted.length) - 1;
  return sorted[Math.max(0, at)] ?? Number.NaN;
}

/** Returns the median, between the two middle values if their number is even; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length / 2;
  const upper = sorted[Math.floor(half)] ?? Number.NaN;
  const lower = sorted[Math.ceil(half) - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}
