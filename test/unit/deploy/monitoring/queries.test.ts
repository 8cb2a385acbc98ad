import { describe, expect, test } from "vitest";
import { METRICS as PROBER } from "../../../../deploy/prober/prober.ts";
import type { MetricRow } from "../../../../deploy/runtime/metrics/metric-table.ts";
import { processRegistry } from "../../../../deploy/runtime/metrics/process-metrics.ts";
import { METRICS as ENGINE } from "../../../../engine/metrics/metrics.ts";
import { METRICS as GATEWAY } from "../../../../gateway/stats/metrics.ts";
import { alertRules } from "../../../support/monitoring/alert-rules.ts";
import { DASHBOARDS, type Panel, queriesOf } from "../../../support/monitoring/dashboards.ts";

/** Labels that Prometheus adds to every series, and its own metric of every scrape. */
const OF_PROMETHEUS = ["instance", "job"];

/** Labels by metric; a histogram's also for its three suffixes. */
const LABELS = new Map<string, readonly string[]>([
  ["up", []],
  ["alertmanager_notifications_failed_total", ["integration"]],
  ["envoy_server_days_until_first_cert_expiring", []],
]);
for (const { name } of processRegistry().getMetricsAsArray()) LABELS.set(name, []);
for (const [name, { type, labels }] of [GATEWAY, ENGINE, PROBER].flatMap((table) => Object.entries<MetricRow>(table))) {
  const names = type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => `${name}${end}`) : [name];
  for (const one of names) LABELS.set(one, one.endsWith("_bucket") ? [...labels, "le"] : labels);
}
for (const { record } of alertRules()) if (record) LABELS.set(record, []);

/** Returns the unknown metrics of a query, and the labels that none of its metrics has. */
function unknownIn(expr: string): readonly string[] {
  const found: string[] = [];
  const bare = expr.replaceAll(/"[^"]*"/g, '""');
  const metrics = [
    ...bare.matchAll(/\b((?:svc|gen_ai|envoy|vllm|nodejs|process|alertmanager)[_:][\w:]+|up\b)(?:\{([^}]*)\})?/g),
  ];
  if (metrics.length === 0) found.push("no metric at all");
  const all = new Set<string>(OF_PROMETHEUS);
  for (const [, name = "", matchers = ""] of metrics) {
    const labels = LABELS.get(name);
    if (!labels) found.push(name);
    for (const label of labels ?? []) all.add(label);
    for (const [, label = ""] of matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g))
      if (!labels?.includes(label) && !OF_PROMETHEUS.includes(label)) found.push(`${name}{${label}}`);
  }
  for (const [, list = ""] of bare.matchAll(/\b(?:by|on|without|ignoring)\s*\(([^)]*)\)/g))
    for (const label of list.split(",").map((word) => word.trim())) if (!all.has(label)) found.push(`by (${label})`);
  return found;
}

/** Units of Grafana that our panels use. */
const UNITS = ["short", "s", "percentunit", "reqps", "bytes", "ops"];
/** The data source of all panels, which is selected above them. */
const SOURCE = { type: "prometheus", uid: "$datasource" };

/** Returns the fields of Grafana's grid that a panel takes up. */
const fieldsOf = ({ x, y, w, h }: Panel["gridPos"]) =>
  Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`);

describe.each(DASHBOARDS)("the dashboard $name", ({ name, uid, templating, panels, charts }) => {
  test.each(charts)("$title queries existing metrics", ({ targets = [] }) => {
    expect(targets.length).toBeGreaterThan(0);
    for (const { expr, legendFormat } of targets) {
      expect(unknownIn(expr)).toEqual([]);
      // A label in a legend must be one that the query keeps.
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
        expect(/\bby\s*\(/.test(expr) ? expr : `by (${label})`).toMatch(new RegExp(`by\\s*\\([^)]*\\b${label}\\b`));
    }
  });

  test("the dashboard lets choose among values that there are", () => {
    const [source, ...variables] = templating.list;
    expect(source).toMatchObject({ name: "datasource", type: "datasource" });
    for (const { name: variable, definition = "" } of variables) {
      const [, of, label] = /^label_values\((\w+), (\w+)\)$/.exec(definition) ?? [];
      expect(label).toBe(variable);
      expect(unknownIn(`${of}{${label}="x"}`)).toEqual([]);
    }
    const chosen = queriesOf(charts).flatMap((expr) => [...expr.matchAll(/\$(\w+)/g)].map(([, one = ""]) => one));
    const known = ["__rate_interval", ...variables.map((one) => one.name)];
    expect(chosen.filter((one) => !known.includes(one))).toEqual([]);
  });

  test("the dashboard describes each panel, under a distinct heading, in a unit", () => {
    const titles = charts.map(({ title }) => title);
    expect(new Set(titles).size).toBe(titles.length);
    for (const { description, fieldConfig } of charts) {
      expect(description).toMatch(/^[A-Z].*\.$/);
      expect(UNITS).toContain(fieldConfig?.defaults.unit);
    }
  });

  test("the dashboard has an address of its name, and panels beside each other that ask the selected source", () => {
    expect(uid).toBe(`svc-${name}`);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = panels.flatMap(({ gridPos }) => fieldsOf(gridPos));
    expect(new Set(taken).size).toBe(taken.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    for (const { datasource, targets = [] } of charts) {
      expect([datasource, ...targets.map((target) => target.datasource)]).toEqual([
        SOURCE,
        ...targets.map(() => SOURCE),
      ]);
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
    }
  });
});

describe("the alerts", () => {
  const rules = alertRules();

  // One has none, as it fires always.
  const querying = rules.filter(({ alert }) => alert !== "SvcWatchdog");
  test.each(querying.map((rule) => [rule.alert ?? rule.record, rule] as const))(
    "%s queries existing metrics",
    (_, rule) => {
      expect(unknownIn(rule.expr)).toEqual([]);
    },
  );

  test("each have a severity, a summary and a first action", () => {
    const alerts = rules.filter(({ alert }) => alert !== undefined);
    expect(alerts.length).toBeGreaterThan(20);
    for (const { alert, labels, annotations } of alerts) {
      expect(alert).toMatch(/^Svc[A-Za-z]+$/);
      expect(alert === "SvcWatchdog" ? ["none"] : ["page", "ticket"]).toContain(labels?.severity);
      for (const text of [annotations?.summary, annotations?.runbook]) expect(text).toMatch(/^\S.*[.]$/);
    }
  });
});

test("a query of something unknown is noticed", () => {
  expect(unknownIn("rate(svc_nonsense_total[5m])")).toEqual(["svc_nonsense_total"]);
  expect(unknownIn('svc_queue_depth{color="red"}')).toEqual(["svc_queue_depth{color}"]);
  expect(unknownIn("sum by (color) (svc_queue_depth)")).toEqual(["by (color)"]);
  expect(unknownIn("vector(1)")).toEqual(["no metric at all"]);
});
