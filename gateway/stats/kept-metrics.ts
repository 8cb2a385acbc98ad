import { Counter, Gauge, Histogram, type MetricConfiguration, type Registry } from "prom-client";

/*
 * Metrics whose series are kept as numbers, and rendered at a scrape only. Looking up a series of the library by an
 * object of labels takes 0.3 µs, and a short request counts in twenty of them.
 */

export type KeptOptions<Labels extends readonly string[]> = {
  readonly name: string;
  /** The HELP text. */
  readonly help: string;
  readonly labelNames: Labels;
};

/** The values of the leading labels, in the order of their names; each is from a closed list. */
type ValuesOf<Labels extends readonly string[]> = { readonly [At in keyof Labels]: string | number };

/** A node in the tree of all series: those with the same leading label values. */
type Branch<Series> = { readonly below: Map<string | number, Branch<Series>>; series: Series | undefined };

/** One number in a scrape of a metric. */
type Shown = {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
};

/** The series of one metric by their label values, in order. */
class SeriesTree<Series extends { reset(): void }> {
  readonly #options: KeptOptions<readonly string[]>;
  readonly #newSeries: () => Series;
  readonly #root: Branch<Series> = { below: new Map(), series: undefined };
  readonly #all: { readonly labels: Readonly<Record<string, string | number>>; readonly series: Series }[] = [];

  constructor(options: KeptOptions<readonly string[]>, newSeries: () => Series) {
    this.#options = options;
    this.#newSeries = newSeries;
  }

  of(values: readonly (string | number)[]): Series {
    let branch = this.#root;
    for (const value of values) {
      let next = branch.below.get(value);
      if (!next) {
        next = { below: new Map(), series: undefined };
        branch.below.set(value, next);
      }
      branch = next;
    }
    branch.series ??= this.#begin(values);
    return branch.series;
  }

  /** Makes `registry` read these series instead of the library's own for this metric. */
  register(
    registry: Registry,
    metric: Counter | Gauge | Histogram,
    type: "counter" | "gauge" | "histogram",
    show: (labels: Shown["labels"], series: Series) => readonly Shown[],
  ): void {
    const { name, help, labelNames } = this.#options;
    // The only series of a metric without labels exists from the start.
    if (labelNames.length === 0) this.of([]);
    const values = () => this.#all.flatMap(({ labels, series }) => show(labels, series));
    const read = async () => ({ name, help, type, aggregator: "sum", values: values() });
    const reset = () => {
      for (const { series } of this.#all) series.reset();
    };
    // The two ways in which the registry reads a metric.
    registry.registerMetric(Object.assign(metric, { get: read, getForPromString: read, reset }));
  }

  #begin(values: readonly (string | number)[]): Series {
    const series = this.#newSeries();
    const labels = Object.fromEntries(this.#options.labelNames.map((name, at) => [name, values[at] ?? ""]));
    this.#all.push({ labels, series });
    return series;
  }
}

/** A number of one series. */
export class KeptNumber {
  value = 0;

  inc(by = 1): void {
    this.value += by;
  }

  reset(): void {
    this.value = 0;
  }
}

/** A counter, or a gauge that only this class changes. */
export class KeptCounter<Labels extends readonly string[]> {
  readonly #series: SeriesTree<KeptNumber>;

  /** `type` is `gauge` if the value may fall. Default: a counter. */
  constructor(registry: Registry, options: KeptOptions<Labels>, type: "counter" | "gauge" = "counter") {
    this.#series = new SeriesTree(options, () => new KeptNumber());
    const metric = type === "counter" ? new Counter(withoutRegistry(options)) : new Gauge(withoutRegistry(options));
    this.#series.register(registry, metric, type, (labels, { value }) => [{ labels, value }]);
  }

  /** Returns the series of these label values, in the order of the label names. A new one begins at 0. */
  of(...values: ValuesOf<Labels>): KeptNumber {
    return this.#series.of(values);
  }
}

/** The buckets of one series. */
export class KeptBuckets {
  readonly #bounds: readonly number[];
  /** Values per bucket, not cumulative; the infinite bucket is the last. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` are the ascending upper bounds of the buckets, without the infinite one. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Values per bucket, not cumulative; the infinite bucket is the last. */
  get counts(): ArrayLike<number> & Iterable<number> {
    return this.#counts;
  }

  get sum(): number {
    return this.#sum;
  }

  /** Runs for every delta. */
  observe(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += value;
  }

  reset(): void {
    this.#counts.fill(0);
    this.#sum = 0;
  }
}

export class KeptHistogram<Labels extends readonly string[]> {
  readonly #series: SeriesTree<KeptBuckets>;

  /** `bounds` are the ascending upper bounds of the buckets, without the infinite one. */
  constructor(registry: Registry, options: KeptOptions<Labels>, bounds: readonly number[]) {
    this.#series = new SeriesTree(options, () => new KeptBuckets(bounds));
    const metric = new Histogram(withoutRegistry(options));
    const { name } = options;
    this.#series.register(registry, metric, "histogram", (labels, { counts, sum }) => {
      let total = 0;
      const buckets = [...counts].map((count, at) => {
        total += count;
        return { metricName: `${name}_bucket`, labels: { le: bounds[at] ?? "+Inf", ...labels }, value: total };
      });
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    });
  }

  /** Returns the series of these label values, in the order of the label names. A new one is empty. */
  of(...values: ValuesOf<Labels>): KeptBuckets {
    return this.#series.of(values);
  }
}

function withoutRegistry(options: KeptOptions<readonly string[]>): MetricConfiguration<string> {
  return { ...options, registers: [] };
}
