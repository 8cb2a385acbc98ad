import type { Registry } from "prom-client";
import { code, page, table } from "./markdown.ts";
import type { MetricActions } from "./metric-actions.ts";

/** A metric as its registry describes it. */
export type MetricFacts = {
  /** The name of the metric as it is registered. */
  readonly name: string;
  /** The type of the metric: `counter`, `gauge` or `histogram`. */
  readonly type: string;
  /** The help text of the metric. */
  readonly help: string;
  /** The names of the labels, in the order in which they were declared. */
  readonly labels: readonly string[];
};

/** The facts about a program's metrics from which its page is made. */
export type MetricsPage = {
  /** The heading of the page. */
  readonly title: string;
  /** The files that the page is made from, for the note to whoever would edit it. */
  readonly madeFrom: string;
  /** The paragraphs under the heading, before the tables. */
  readonly intro: readonly string[];
  /** The registry that holds every metric of the program. */
  readonly registry: Registry;
  /** The advice for each metric, which also gives the page its groups and their order. */
  readonly actions: MetricActions;
};

/** The endings of names that tell the unit, as Prometheus has it, with the unit of each. */
const UNITS: readonly (readonly [ending: RegExp, unit: string])[] = [
  [/_timestamp_seconds$/, "seconds since the epoch"],
  [/_per_second$/, "per second"],
  [/_seconds$/, "seconds"],
  [/_bytes$/, "bytes"],
  [/_ratio$/, "share, 0 to 1"],
  [/_tokens(?:_total)?$/, "tokens"],
];

/** Matches the metrics that the library and Node bring for every process; which there are depends on the machine. */
const OF_THE_PLATFORM = /^(?:process|nodejs)_(?!eventloop_utilization_ratio$)/;

/** Writes the page of a program's metrics. Throws where a metric has no advice, or advice has no metric. */
export function metricsPage({ title, madeFrom, intro, registry, actions }: MetricsPage): string {
  const metrics = new Map(metricsOf(registry).map((metric) => [metric.name, metric]));
  const advised = Object.values(actions).flatMap((group) => Object.keys(group));
  const without = [...metrics.keys()].filter((name) => !advised.includes(name));
  if (without.length > 0) throw new Error(`${title}: nobody says what to do about ${without.join(", ")}`);
  const sections = Object.entries(actions).map(([heading, group]) => {
    const rows = Object.entries(group).map(([name, action]) => {
      const metric = metrics.get(name);
      if (!metric) throw new Error(`${title}: there is advice about ${name}, and no such metric`);
      return metricRow(metric, action);
    });
    return `## ${heading}\n\n${table(["metric", "type", "labels", "unit", "meaning", "when it moves"], rows)}`;
  });
  return page(title, madeFrom, [...intro, ...sections]);
}

/** Returns the metrics of ours in a registry. */
export function metricsOf(registry: Registry): readonly MetricFacts[] {
  return registry
    .getMetricsAsArray()
    .filter(({ name }) => !OF_THE_PLATFORM.test(name))
    .map((metric) => ({ name: metric.name, type: String(metric.type), help: metric.help, labels: labelsOf(metric) }));
}

/** Returns the names of a metric's labels, which the library keeps and leaves out of its types. */
function labelsOf(metric: object): readonly string[] {
  return "labelNames" in metric && Array.isArray(metric.labelNames) ? metric.labelNames.map(String) : [];
}

function metricRow({ name, type, help, labels }: MetricFacts, action: string): readonly string[] {
  const unit = UNITS.find(([ending]) => ending.test(name))?.[1] ?? "count";
  return [code(name), type, labels.map(code).join(", "), unit, help, action];
}
