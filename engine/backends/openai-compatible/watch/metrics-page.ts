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
