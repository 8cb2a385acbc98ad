import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { Stats } from "../../../../gateway/stats/stats.ts";
import { UpstreamStats } from "../../../../gateway/stats/upstream-stats.ts";

async function after(run: (stats: UpstreamStats) => void): Promise<(name: string) => number> {
  const registry = new Registry();
  run(new UpstreamStats(registry));
  const text = await registry.metrics();
  return (name) =>
    Number(new RegExp(`^svc_cluster_upstream_${name}\\{cluster="c"\\} (\\S+)$`, "m").exec(text)?.[1] ?? 0);
}

test("every attempt counts; active calls are those that have not ended", async () => {
  const value = await after((stats) => {
    stats.begin("c", "first");
    stats.end("c", "first", "answered");
    stats.begin("c", "first");
  });
  expect([value("rq_total"), value("rq_active"), value("rq_retry_total")]).toEqual([2, 1, 0]);
});

test.each([
  ["answered", 1, 1],
  ["cancelled", 1, 0],
  ["upstream_reset", 1, 0],
] as const)("a retry that was %j counts as a success only when it was answered", async (ending, retries, successes) => {
  const value = await after((stats) => {
    stats.begin("c", "retry");
    stats.end("c", "retry", ending);
  });
  expect([value("rq_retry_total"), value("rq_retry_success_total")]).toEqual([retries, successes]);
});

test.each([
  ["upstream_timeout", "rq_timeout_total"],
  ["upstream_per_try_timeout", "rq_per_try_timeout_total"],
  ["upstream_reset", "rq_rx_reset_total"],
  ["upstream_aborted", "rq_rx_reset_total"],
] as const)("%s counts as %s and nothing else", async (failed, name) => {
  const value = await after((stats) => stats.end("c", "first", failed));
  const names = ["rq_timeout_total", "rq_per_try_timeout_total", "rq_rx_reset_total"];
  expect(names.filter((one) => value(one) > 0)).toEqual([name]);
});

test("a cluster without a healthy endpoint is counted", async () => {
  expect((await after((stats) => stats.noneHealthy.inc({ cluster: "c" })))("cx_none_healthy_total")).toBe(1);
  expect((await after((stats) => stats.prefillOverdue.inc({ cluster: "c" })))("rq_prefill_overdue_total")).toBe(1);
});

test("counts of failures begin at 0, so that the first one is a rise", async () => {
  const stats = new Stats();
  stats.startAtZero(["svc-qwen"]);
  const text = await stats.registry.metrics();
  for (const series of [
    'svc_cluster_upstream_rq_retry_total{cluster="svc-qwen"}',
    'svc_cluster_upstream_rq_rx_reset_total{cluster="svc-qwen"}',
    'svc_request_of_death_total{cluster="svc-qwen"}',
    'svc_stream_end_total{format="messages",reason="engine_died"}',
    'svc_streams_paused_backpressure{format="chat"}',
    'svc_ratelimit_decisions_total{dim="itpm",decision="refused"}',
    'svc_auth_failures_total{reason="api_key_invalid"}',
  ])
    expect(text).toContain(`\n${series} 0\n`);
});
