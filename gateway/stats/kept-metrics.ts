import { Counter, Gauge, Histogram, type MetricConfiguration, type Registry } from "prom-client";

/*
 * Metrics whose series are kept as numbers, which are only put into words when somebody asks. To find a series by an
 * object of its labels, as the library does, takes 0.3 µs, and a short request counts in twenty of them.
 */

/** What names the metrics of a kind, and their labels. */
export type KeptOptions<Labels extends readonly string[]> = {
  /** The name of the metric. */
  readonly name: string;
  /** What the metric tells, for those who read it. */
  readonly help: string;
  /** The names of its labels. */
  readonly labelNames: Labels;
};

/** The values of some labels, in the order of their names; each of them comes from a closed list. */
type ValuesOf<Labels extends readonly string[]> = { readonly [At in keyof Labels]: string | number };

/** A place in the tree of all series: those whose label values begin alike. */
type Branch<Series> = { readonly below: Map<string | number, Branch<Series>>; series: Series | undefined };

/** One of the numbers that a scrape of a metric shows. */
type Shown = {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
};

/** The series of one metric, each found by the values of its labels, in their order. */
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

  /** Has `registry` read these series in place of what the library's metric of this name would have. */
  register(
    registry: Registry,
    metric: Counter | Gauge | Histogram,
    type: "counter" | "gauge" | "histogram",
    show: (labels: Shown["labels"], series: Series) => readonly Shown[],
  ): void {
    const { name, help, labelNames } = this.#options;
    // The one series of a metric without labels is there from the beginning.
    if (labelNames.length === 0) this.of([]);
    const values = () => this.#all.flatMap(({ labels, series }) => show(labels, series));
    const read = async () => ({ name, help, type, aggregator: "sum", values: values() });
    const reset = () => {
      for (const { series } of this.#all) series.reset();
    };
    // Both of the ways in which the registry reads a metric.
    registry.registerMetric(Object.assign(metric, { get: read, getForPromString: read, reset }));
  }

  #begin(values: readonly (string | number)[]): Series {
    const series = this.#newSeries();
    const labels = Object.fromEntries(this.#options.labelNames.map((name, at) => [name, values[at] ?? ""]));
    this.#all.push({ labels, series });
    return series;
  }
}

/** A number of things, of one series. */
export class KeptNumber {
  /** The number now. */
  value = 0;

  /** Counts `by` more. Default: one. */
  inc(by = 1): void {
    this.value += by;
  }

  /** Begins again at 0. */
  reset(): void {
    this.value = 0;
  }
}

/** A counter, or a gauge of what there is now, whose series are kept. */
export class KeptCounter<Labels extends readonly string[]> {
  readonly #series: SeriesTree<KeptNumber>;

  /** Registers the metric in `registry`. `type` says whether it may also fall. Default: it never does. */
  constructor(registry: Registry, options: KeptOptions<Labels>, type: "counter" | "gauge" = "counter") {
    this.#series = new SeriesTree(options, () => new KeptNumber());
    const metric = type === "counter" ? new Counter(withoutRegistry(options)) : new Gauge(withoutRegistry(options));
    this.#series.register(registry, metric, type, (labels, { value }) => [{ labels, value }]);
  }

  /** Returns the series of these label values, in the order of the labels' names. A new one begins at 0. */
  of(...values: ValuesOf<Labels>): KeptNumber {
    return this.#series.of(values);
  }
}

/** How often values came, of one series, by the buckets that they belong to. */
export class KeptBuckets {
  readonly #bounds: readonly number[];
  /** The number of values in each bucket, not summed up; the endless bucket is the last. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** Has no values at first. `bounds` are the upper bounds of the buckets but the endless one, in order. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** The number of values in each bucket, not summed up; the endless bucket is the last. */
  get counts(): ArrayLike<number> & Iterable<number> {
    return this.#counts;
  }

  /** The sum of all values. */
  get sum(): number {
    return this.#sum;
  }

  /** Counts one value. It runs on the path of every delta. */
  observe(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sum += value;
  }

  /** Begins again without values. */
  reset(): void {
    this.#counts.fill(0);
    this.#sum = 0;
  }
}

/** A histogram whose series are kept. */
export class KeptHistogram<Labels extends readonly string[]> {
  readonly #series: SeriesTree<KeptBuckets>;

  /** Registers the metric in `registry`. `bounds` are the upper bounds of its buckets but the endless one, in order. */
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

  /** Returns the series of these label values, in the order of the labels' names. A new one has no values. */
  of(...values: ValuesOf<Labels>): KeptBuckets {
    return this.#series.of(values);
  }
}

function withoutRegistry(options: KeptOptions<readonly string[]>): MetricConfiguration<string> {
  return { ...options, registers: [] };
}
