/**
 * Returns the query for a quantile of a histogram over the dashboard's step. `by` are the labels that distinguish the
 * lines, and `matchers` narrow its series.
 */
export function quantile(share: number, histogram: string, by: readonly string[], matchers = ""): string {
  const narrowed = matchers && `{${matchers}}`;
  return `histogram_quantile(${share}, sum by (${["le", ...by].join(", ")}) (rate(${histogram}_bucket${narrowed}[$__rate_interval])))`;
}
