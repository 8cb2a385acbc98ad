import { expect, test } from "vitest";
import { Stats } from "../../../../gateway/stats/stats.ts";

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
