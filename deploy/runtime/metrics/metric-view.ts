import { Gauge, type Metric, type Registry } from "prom-client";

/** The labels of one series, by name. */
type Labels = Readonly<Record<string, string>>;

/** A metric under a name that others fixed, which shows one of ours. It counts nothing itself. */
export type MetricView = {
  /** The name under which others look for the metric. */
  readonly name: string;
  /** The name of the metric of ours that it shows; its type is that metric's. */
  readonly of: string;
  /** The names of the labels that its series have. */
  readonly labelNames: readonly string[];
  /**
   * Gives the labels under which a series of ours is shown, from the labels it has with us; series that come to the
   * same labels are added up. Undefined leaves the series out.
   */
  readonly labels: (ours: Labels) => Labels | undefined;
};

type Sample = { readonly metricName?: string; readonly labels: Labels; readonly value: number };

/**
 * Registers metrics that show others of the registry under names that others fixed. They are worked out when the
 * registry is read, so that counting costs nothing more. Throws where the registry has no metric to show.
 */
export function registerViews(registry: Registry, views: readonly MetricView[]): void {
  for (const view of views) {
    const source: Metric<string> | undefined = registry.getSingleMetric(view.of);
    if (!source) throw new Error(`${view.name}: there is no ${view.of} to show`);
    const { name, labelNames } = view;
    const help = helpOf(view);
    const read = async () => {
      const { type, aggregator, values } = await source.get();
      return { name, help, type, aggregator, values: shown(view, values as readonly Sample[]) };
    };
    const metric = new Gauge({ name, help, labelNames: [...labelNames], registers: [] });
    const { type } = source as unknown as { readonly type: string };
    // Both of the ways in which the registry reads a metric; what is shown is reset where it is counted.
    registry.registerMetric(Object.assign(metric, { type, get: read, getForPromString: read, reset: () => {} }));
  }
}

/** Returns the help text of a view, which names what it shows. */
export function helpOf({ of }: MetricView): string {
  return `The same as ${of}, under a name and labels that others fixed.`;
}

/** Returns the series of a view, from those of the metric that it shows. */
function shown({ name, of, labels }: MetricView, values: readonly Sample[]): readonly Sample[] {
  const sums = new Map<string, { metricName: string; labels: Labels; value: number }>();
  for (const { metricName = of, labels: ours, value } of values) {
    const { le, ...own } = ours;
    const theirs = labels(own);
    if (theirs === undefined) continue;
    const ending = metricName.slice(of.length);
    // As histograms of the library have it, the bound stands first.
    const all = le === undefined ? theirs : { le, ...theirs };
    const key = `${ending} ${JSON.stringify(all)}`;
    const sum = sums.get(key);
    if (sum) sum.value += value;
    else sums.set(key, { metricName: `${name}${ending}`, labels: all, value });
  }
  return [...sums.values()];
}
