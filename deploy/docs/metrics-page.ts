import type { Registry } from "prom-client";
import { code, page, table } from "./markdown.ts";
import type { MetricActions } from "./metric-actions.ts";

export type MetricFacts = {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
};

const READING =
  "Metrics whose type is not named are counters. Those of every process, and what to alert on, are on [Monitoring](../../deploy/monitoring/README.md).";

/** Matches the metrics of the library and Node, which exist in every process and depend on the machine. */
const OF_THE_PLATFORM = /^(?:process|nodejs)_(?!eventloop_utilization_ratio$)/;

/** Writes the page of a program's metrics. Throws for a metric without advice, or advice without a metric. */
export function metricsPage(program: string, served: string, registry: Registry, actions: MetricActions): string {
  const title = `Metrics of ${program}`;
  const metrics = new Map(metricsOf(registry).map((metric) => [metric.name, metric]));
  const advised = Object.values(actions).flatMap((group) => Object.keys(group));
  const without = [...metrics.keys()].filter((name) => !advised.includes(name));
  if (without.length > 0) throw new Error(`${title}: there is no advice about ${without.join(", ")}`);
  const sections = Object.entries(actions).map(([heading, group]) => {
    const rows = Object.entries(group).map(([name, action]) => {
      const metric = metrics.get(name);
      if (!metric) throw new Error(`${title}: there is advice about ${name}, and no such metric`);
      return metricRow(metric, action);
    });
    return `## ${heading}\n\n${table(["metric", "meaning", "when it moves"], rows)}`;
  });
  const source = `the registry of ${program.replace(/^the/, "a")} and \`deploy/docs/metric-actions.ts\``;
  return page(title, source, [`${served} ${READING}`, ...sections]);
}

export function metricsOf(registry: Registry): readonly MetricFacts[] {
  return registry
    .getMetricsAsArray()
    .filter(({ name }) => !OF_THE_PLATFORM.test(name))
    .map((metric) => ({ name: metric.name, type: String(metric.type), help: metric.help, labels: labelsOf(metric) }));
}

/** Returns the label names of a metric, which the types of the library omit. */
function labelsOf(metric: object): readonly string[] {
  return "labelNames" in metric && Array.isArray(metric.labelNames) ? metric.labelNames.map(String) : [];
}

function metricRow({ name, type, help, labels }: MetricFacts, action: string): readonly string[] {
  const isOfCluster = name.startsWith("svc_cluster_");
  const others = labels.filter((label) => label !== "cluster" || !isOfCluster);
  const series = others.length === 0 ? name : `${name}{${others.join(",")}}`;
  const words = isOfCluster ? help.replaceAll(/ of the cluster(?!')/g, "") : help;
  const meaning = words.replace(/, in (?:seconds|bytes)(?=[,.])/, "");
  return [type === "counter" ? code(series) : `${code(series)} ${type}`, meaning, action];
}
