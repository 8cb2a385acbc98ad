import { expect, test } from "vitest";
import { EngineMetrics } from "../../../../engine/metrics/engine-metrics.ts";

test("failure counts start at 0 for every model and job kind, so that the first is a rise", async () => {
  const metrics = new EngineMetrics();
  metrics.startAtZero(["svc-qwen"], ["grammar"]);
  const text = await metrics.registry.metrics();
  for (const series of [
    'svc_engine_generations_total{model="svc-qwen",reason="ENGINE_DOWN"}',
    'svc_engine_schema_mismatches_total{model="svc-qwen",part="arguments"}',
    'svc_engine_schema_unchecked_total{model="svc-qwen"}',
    'svc_engine_caller_work_total{kind="grammar",outcome="failed"}',
  ])
    expect(text).toContain(`\n${series} 0\n`);
});
