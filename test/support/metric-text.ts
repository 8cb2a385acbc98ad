/** Returns the sum of all series of a metric whose labels contain `labels`; 0 if there is none. */
export function metricSum(text: string, name: string, labels = ""): number {
  let sum = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) continue;
    if (line.includes(labels)) sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return sum;
}

/** Returns the smallest bound of a histogram with `share` of the observations below it; infinity beyond the last. */
export function metricQuantile(text: string, name: string, share: number): number {
  const total = metricSum(text, `${name}_count`);
  for (const line of text.split("\n")) {
    const bound = new RegExp(`^${name}_bucket\\{.*le="([^"]+)"`).exec(line)?.[1];
    if (bound && Number(line.slice(line.lastIndexOf(" ") + 1)) >= share * total) return Number(bound);
  }
  return Number.POSITIVE_INFINITY;
}
