import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { counter, gauge, histogram, Metrics } from "../../../../../deploy/runtime/metrics/metric-table.ts";

const ROWS = {
  jobs_total: counter(["kind"])("Jobs.", "Nothing."),
  speed: gauge()("Speed.", "Nothing."),
  wait_seconds: histogram([1, 5])("Waits.", "Nothing."),
};

function setUp() {
  const registry = new Registry();
  return { registry, metrics: new Metrics(ROWS, registry) };
}

test("a metric has type, help, labels and buckets of its row, and is absent until it is made", async () => {
  const { registry, metrics } = setUp();
  expect(await registry.metrics()).toBe("\n");
  metrics.metric("jobs_total").inc({ kind: "a" }, 2);
  metrics.metric("wait_seconds").observe(3);
  expect((await registry.metrics()).trim().split("\n")).toEqual([
    "# HELP jobs_total Jobs.",
    "# TYPE jobs_total counter",
    'jobs_total{kind="a"} 2',
    "",
    "# HELP wait_seconds Waits.",
    "# TYPE wait_seconds histogram",
    'wait_seconds_bucket{le="1"} 0',
    'wait_seconds_bucket{le="5"} 1',
    'wait_seconds_bucket{le="+Inf"} 1',
    "wait_seconds_sum 3",
    "wait_seconds_count 1",
  ]);
});

test("each scrape reads what there is then", async () => {
  const { registry, metrics } = setUp();
  const now: { kinds: readonly string[]; speed: number | undefined } = { kinds: ["a", "b"], speed: 7 };
  metrics.read({ jobs_total: () => now.kinds.map((kind) => [{ kind }, 1]), speed: async () => now.speed });
  const series = async () => (await registry.metrics()).split("\n").filter((line) => /^\w/.test(line));
  expect(await series()).toEqual(['jobs_total{kind="a"} 1', 'jobs_total{kind="b"} 1', "speed 7"]);
  now.kinds = ["c"];
  now.speed = undefined;
  expect(await series()).toEqual(['jobs_total{kind="c"} 1']);
});

test("a metric is made once", () => {
  const { metrics } = setUp();
  metrics.metric("speed");
  expect(() => metrics.read({ speed: () => 1 })).toThrow("already been registered");
  expect(() => new Metrics(ROWS, metrics.registry).metric("speed")).toThrow("already been registered");
});

test("names and labels that the table does not have do not compile", () => {
  // @ts-expect-error: no such metric.
  expect(() => setUp().metrics.metric("job_total")).toThrow();
  // @ts-expect-error: no such label.
  expect(() => setUp().metrics.metric("jobs_total").inc({ sort: "a" })).toThrow();
  // @ts-expect-error: no such metric.
  expect(() => setUp().metrics.read({ job_total: () => 1 })).toThrow();
  // @ts-expect-error: one number for all series of a metric.
  setUp().metrics.read({ jobs_total: () => 1 });
  // @ts-expect-error: a series without its label.
  setUp().metrics.read({ jobs_total: () => [[{}, 1]] });
  // @ts-expect-error: a histogram has no value to be read.
  setUp().metrics.read({ wait_seconds: () => 1 });
});
