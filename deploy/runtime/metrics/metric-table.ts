import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/** A metric of a program, as its table has it. */
export type MetricRow = {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets. */
  readonly buckets?: readonly number[];
  readonly help: string;
  /** What an operator does when the metric moves. */
  readonly action: string;
};

/** All metrics of a program by name. */
export type MetricTable = Readonly<Record<string, MetricRow>>;

/** Returns a maker of rows: counters with these labels, each of its help and what an operator does when it moves. */
export function counter<Label extends string = never>(labels: readonly Label[] = []) {
  return (help: string, action: string) => ({ type: "counter", labels, help, action }) as const;
}

/** As `counter`, for gauges. */
export function gauge<Label extends string = never>(labels: readonly Label[] = []) {
  return (help: string, action: string) => ({ type: "gauge", labels, help, action }) as const;
}

/** As `counter`, for histograms; `buckets` are their upper bounds. */
export function histogram<Label extends string = never>(buckets: readonly number[], labels: readonly Label[] = []) {
  return (help: string, action: string) => ({ type: "histogram", labels, buckets, help, action }) as const;
}

type LabelOf<Row extends MetricRow> = Row["labels"][number];
type ByType<Label extends string> = { counter: Counter<Label>; gauge: Gauge<Label>; histogram: Histogram<Label> };

/** A series by its labels, with its value; absent where that is undefined. */
export type Series<Label extends string> = readonly [
  labels: Readonly<Record<Label, string>>,
  value: number | undefined,
];
/** The series of a metric now, or the value of one without labels, which is absent where undefined. */
type Reading<Label extends string> = [Label] extends [never] ? number | undefined : readonly Series<Label>[];
type Read<Label extends string> = () => Reading<Label> | Promise<Reading<Label>>;
type Readers<Table extends MetricTable> = {
  readonly [Name in keyof Table as Table[Name]["type"] extends "histogram" ? never : Name]?: Read<LabelOf<Table[Name]>>;
};

/** Makes the metrics of a table in a registry, each when the owner of its values asks for it, and only once. */
export class Metrics<Table extends MetricTable> {
  readonly registry: Registry;
  readonly #table: Table;

  constructor(table: Table, registry: Registry) {
    this.#table = table;
    this.registry = registry;
  }

  /** Makes a metric that the caller counts, sets or observes. Throws if the registry has it already. */
  metric<Name extends keyof Table & string>(name: Name): ByType<LabelOf<Table[Name]>>[Table[Name]["type"]] {
    const row: Table[Name] = this.#table[name];
    const type: Table[Name]["type"] = row.type;
    const options = { name, help: row.help, labelNames: row.labels, registers: [this.registry] };
    const makers: { [Type in keyof ByType<string>]: () => ByType<LabelOf<Table[Name]>>[Type] } = {
      counter: () => new Counter(options),
      gauge: () => new Gauge(options),
      histogram: () => new Histogram({ ...options, buckets: [...(row.buckets ?? [])] }),
    };
    return makers[type]();
  }

  /**
   * Makes counters and gauges whose values are read at each scrape, by name. Throws if the registry has one of them
   * already.
   */
  read(readers: Readers<Table>): void {
    const all: Readonly<Record<string, Read<string> | Read<never> | undefined>> = readers;
    for (const [name, read] of Object.entries(all)) {
      const row = this.#table[name];
      if (!read) continue;
      if (!row) throw new Error(`the table has no metric ${name}`);
      const Type: typeof Gauge<string> | typeof Counter<string> = row.type === "gauge" ? Gauge : Counter;
      new Type({
        ...{ name, help: row.help, labelNames: row.labels, registers: [this.registry] },
        async collect() {
          const now = await read();
          // Series come and go with their endpoints: each scrape begins with none.
          this.reset();
          if (now === undefined) this.remove();
          else if (typeof now === "number") this.inc(now);
          else for (const [labels, value] of now) if (value !== undefined) this.inc(labels, value);
        },
      });
    }
  }
}
