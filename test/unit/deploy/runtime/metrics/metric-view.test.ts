import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { registerViews } from "../../../../../deploy/runtime/metrics/metric-view.ts";

const linesOf = async (registry: Registry, name: string) =>
  (await registry.metrics()).split("\n").filter((line) => line.startsWith(name));

test("a view shows a counter under another name, and what is counted later", async () => {
  const registry = new Registry();
  const ours = new Counter({ name: "ours_total", help: "h", labelNames: ["cluster"], registers: [registry] });
  const labels = ({ cluster = "" }) => ({ envoy_cluster_name: cluster });
  registerViews(registry, [{ name: "theirs", of: "ours_total", labelNames: ["envoy_cluster_name"], labels }]);
  ours.inc({ cluster: "a" }, 2);
  expect(await linesOf(registry, "theirs")).toEqual(['theirs{envoy_cluster_name="a"} 2']);
  expect(await registry.metrics()).toContain("# TYPE theirs counter");
  expect(registry.getMetricsAsArray().find(({ name }) => name === "theirs")).toMatchObject({ type: "counter" });
});

test("series that come to the same labels are added up, bound by bound, and others are left out", async () => {
  const registry = new Registry();
  const ours = new Histogram({
    name: "ours_seconds",
    help: "h",
    labelNames: ["model", "cache"],
    buckets: [1, 2],
    registers: [registry],
  });
  const labels = ({ model = "" }) => (model === "hidden" ? undefined : { m: model });
  registerViews(registry, [{ name: "theirs_seconds", of: "ours_seconds", labelNames: ["m"], labels }]);
  ours.observe({ model: "a", cache: "hit" }, 0.5);
  ours.observe({ model: "a", cache: "miss" }, 1.5);
  ours.observe({ model: "hidden", cache: "hit" }, 1);
  expect(await linesOf(registry, "theirs_seconds")).toEqual([
    'theirs_seconds_bucket{le="1",m="a"} 1',
    'theirs_seconds_bucket{le="2",m="a"} 2',
    'theirs_seconds_bucket{le="+Inf",m="a"} 2',
    'theirs_seconds_sum{m="a"} 2',
    'theirs_seconds_count{m="a"} 2',
  ]);
});

test("what is not known is not shown, and a reset leaves what is counted alone", async () => {
  const registry = new Registry();
  const ours = new Gauge({ name: "ours", help: "h", registers: [registry] });
  registerViews(registry, [{ name: "theirs", of: "ours", labelNames: [], labels: () => ({}) }]);
  ours.set(3);
  registry.getSingleMetric("theirs")?.reset();
  expect(await linesOf(registry, "theirs ")).toEqual(["theirs 3"]);
  ours.remove();
  expect(await linesOf(registry, "theirs ")).toEqual([]);
});

test("a view of nothing is refused", () => {
  const view = { name: "theirs", of: "nothing", labelNames: [], labels: () => ({}) };
  expect(() => registerViews(new Registry(), [view])).toThrow("theirs: there is no nothing to show");
});
