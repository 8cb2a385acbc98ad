import type { MetricRow, MetricTable } from "../runtime/metrics/metric-table.ts";
import { code, page, table } from "./markdown.ts";

const READING =
  "Metrics whose type is not named are counters. Those of every process, and what to alert on, are on [Monitoring](../../deploy/monitoring/README.md).";

/** Writes the page of a program's metrics from its table in `source`, of which each section has a heading. */
export function metricsPage(
  program: string,
  served: string,
  source: string,
  sections: Readonly<Record<string, MetricTable>>,
): string {
  const parts = Object.entries(sections).map(([heading, metrics]) => {
    const rows = Object.entries(metrics).map(([name, metric]) => metricRow(name, metric));
    return `## ${heading}\n\n${table(["metric", "meaning", "when it moves"], rows)}`;
  });
  return page(`Metrics of ${program}`, code(source), [`${served} ${READING}`, ...parts]);
}

function metricRow(name: string, { type, labels, help, action }: MetricRow): readonly string[] {
  const isOfCluster = name.startsWith("svc_cluster_");
  const others = labels.filter((label) => label !== "cluster" || !isOfCluster);
  const series = others.length === 0 ? name : `${name}{${others.join(",")}}`;
  const words = isOfCluster ? help.replaceAll(/ of the cluster(?!')/g, "") : help;
  const meaning = words.replace(/, in (?:seconds|bytes)(?=[,.])/, "");
  return [type === "counter" ? code(series) : `${code(series)} ${type}`, meaning, action];
}
