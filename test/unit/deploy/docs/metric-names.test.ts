import { describe, expect, test } from "vitest";
import { engineRegistry, gatewayRegistry } from "../../../../deploy/docs/live-registries.ts";
import { metricsOf } from "../../../../deploy/docs/metrics-page.ts";
import { registerViews } from "../../../../deploy/runtime/metrics/metric-view.ts";
import { vllmViews } from "../../../../engine/metrics/vllm-names.ts";

import { registerForeignNames } from "../../../../gateway/stats/foreign-names.ts";
import { statsSchema } from "../../../../gateway/stats/stats-settings.ts";

const OF_PROGRAMS = [
  ["gateway", gatewayRegistry()],
  ["engine", engineRegistry()],
] as const;

describe.each(OF_PROGRAMS)("the metrics of the %s", (_program, registry) => {
  const ours = metricsOf(registry);

  test("are counters where their names say so, and nowhere else", () => {
    for (const { name, type } of ours) expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
  });

  test("stand under names of ours, of letters and underscores", () => {
    for (const { name } of ours) expect(name).toMatch(/^(?:svc|nodejs)(?:_[a-z]+)+$/);
  });
});

test("no metric of the one program has the name of another one's with other labels", () => {
  const gateway = new Map(metricsOf(gatewayRegistry()).map(({ name, labels }) => [name, labels]));
  const both = metricsOf(engineRegistry()).filter(({ name }) => gateway.has(name));
  expect(both.map(({ name }) => name)).toEqual([]);
});

test("names of others are shown unless they are switched off", () => {
  const namesWith = (settings: object) => {
    const registry = gatewayRegistry();
    registerForeignNames(registry, statsSchema.parse(settings));
    return metricsOf(registry).map(({ name }) => name);
  };
  const of = (names: readonly string[], start: string) => names.filter((name) => name.startsWith(start)).length;
  const all = namesWith({});
  expect(of(all, "envoy_cluster_")).toBeGreaterThan(20);
  expect(of(all, "gen_ai_")).toBe(4);
  expect(of(namesWith({ envoyNames: false }), "envoy_")).toBe(0);
  expect(of(namesWith({ openTelemetryNames: false }), "gen_ai_")).toBe(0);
});

test("a node's metrics can be shown under vLLM's names", async () => {
  const registry = engineRegistry();
  registerViews(registry, vllmViews("svc-qwen"));
  const text = await registry.metrics();
  expect(text).toContain('vllm:num_requests_waiting{model_name="svc-qwen"} 0');
  expect(text).toContain('vllm:num_requests_running{model_name="svc-qwen"} 0');
  // Nobody knows the use of the cache here.
  expect(text).not.toContain("vllm:kv_cache_usage_perc{");
});
