export type Sample = { readonly labels: string; readonly value: number };

/**
 * Parses the samples of a Prometheus page by metric: `name{labels} value`, one per line
 * (https://prometheus.io/docs/instrumenting/exposition_formats/).
 */
export function readMetricsPage(page: string): ReadonlyMap<string, readonly Sample[]> {
  const samples = new Map<string, Sample[]>();
  for (const line of page.split("\n")) {
    const [, name, labels = "", text] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    const value = Number(text);
    if (name === undefined || !Number.isFinite(value)) continue;
    const known = samples.get(name);
    if (known) known.push({ labels, value });
    else samples.set(name, [{ labels, value }]);
  }
  return samples;
}

/** Returns the value of a label; undefined if the sample does not have it. */
export function labelOf({ labels }: Sample, name: string): string | undefined {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1];
}

/**
 * Returns a quantile of a histogram from its `_bucket` samples, summed over replicas, computed as Prometheus'
 * `histogram_quantile` does. `share` is from 0 to 1. Undefined for an empty histogram.
 */
export function quantileOf(buckets: readonly Sample[], share: number): number | undefined {
  const counts = new Map<number, number>();
  for (const bucket of buckets) {
    const text = labelOf(bucket, "le");
    const edge = text === "+Inf" ? Number.POSITIVE_INFINITY : Number(text);
    if (!Number.isNaN(edge)) counts.set(edge, (counts.get(edge) ?? 0) + bucket.value);
  }
  const edges = [...counts].sort(([one], [other]) => one - other);
  const wanted = share * (edges.at(-1)?.[1] ?? 0);
  if (wanted === 0) return undefined;
  let [lower, below] = [0, 0];
  for (const [upper, upTo] of edges) {
    if (upTo >= wanted)
      return upper === Number.POSITIVE_INFINITY ? lower : lower + ((upper - lower) * (wanted - below)) / (upTo - below);
    [lower, below] = [upper, upTo];
  }
  return undefined;
}
