import { Counter, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { KeptCounter, KeptHistogram } from "../../../../gateway/stats/kept-metrics.ts";

const BOUNDS = [0.005, 0.01, 0.15, 0.25, 60];
const named = <const Labels extends readonly string[]>(...labelNames: Labels) => ({
  ...{ name: "svc_some", help: "Some things, by what they are.", labelNames },
});

test("a histogram comes out as the library's own does", async () => {
  const [ours, theirs] = [new Registry(), new Registry()];
  const histogram = new KeptHistogram(ours, named("model", "kind"), BOUNDS);
  const options = { ...named("model", "kind"), buckets: BOUNDS, registers: [theirs] };
  const reference = new Histogram({ ...options, labelNames: ["model", "kind"] });
  for (const [model, kind, value] of [
    ["m1", "a", 0],
    ["m1", "a", 0.005],
    ["m1", "b", 0.0051],
    ["m2", "a", 0.2],
    ["m1", "a", 90],
  ] as const) {
    histogram.of(model, kind).observe(value);
    reference.observe({ model, kind }, value);
  }
  expect(await ours.metrics()).toBe(await theirs.metrics());
  expect(await ours.getMetricsAsJSON()).toMatchObject([{ name: "svc_some", type: "histogram" }]);
});

test("a counter and a gauge come out as the library's own do", async () => {
  const [ours, theirs] = [new Registry(), new Registry()];
  const counter = new KeptCounter(ours, named("route", "code"));
  const reference = new Counter({ ...named(), labelNames: ["route", "code"], registers: [theirs] });
  for (const [code, by] of [
    [200, 1],
    [404, 0],
    [200, 2.5],
  ] as const) {
    counter.of("/v1", code).inc(by);
    reference.inc({ route: "/v1", code }, by);
  }
  expect(await ours.metrics()).toBe(await theirs.metrics());
  const gauges = new Registry();
  const gauge = new KeptCounter(gauges, named("cluster"), "gauge");
  gauge.of("m").inc();
  gauge.of("m").inc(-1);
  expect(await gauges.metrics()).toContain('# TYPE svc_some gauge\nsvc_some{cluster="m"} 0\n');
});

test("without labels there is one series from the beginning", async () => {
  const [ours, theirs] = [new Registry(), new Registry()];
  new KeptHistogram(ours, named(), BOUNDS);
  new Histogram({ ...named(), labelNames: [], buckets: BOUNDS, registers: [theirs] });
  expect(await ours.metrics()).toBe(await theirs.metrics());
});

test("a series is kept, and can be set to zero", async () => {
  const registry = new Registry();
  const histogram = new KeptHistogram(registry, named("model"), BOUNDS);
  const before = histogram.of("m");
  expect(histogram.of("m")).toBe(before);
  before.observe(10);
  registry.resetMetrics();
  before.observe(10);
  expect(await registry.metrics()).toContain('count{model="m"} 1');
});
