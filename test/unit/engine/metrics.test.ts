import { expect, test } from "vitest";
import { EngineMetrics } from "../../../engine/metrics.ts";

function metricsOf() {
  const load: { slots: number; busySlots: number; waiting: number; kvUse?: number } = {
    slots: 4,
    busySlots: 1,
    waiting: 2,
  };
  const metrics = new EngineMetrics(() => load);
  /** The samples of one metric as they stand on the page. */
  const samples = async (name: string) =>
    (await metrics.registry.metrics()).split("\n").filter((line) => line.startsWith(name));
  return { metrics, samples, load };
}

test("what nobody knows is not on the page, rather than 0", async () => {
  const { samples } = metricsOf();
  expect(await samples("svc_engine_tokens_per_second")).toEqual([]);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual([]);
  expect(await samples("svc_engine_kv_cache_usage_ratio")).toEqual([]);
});

test("speeds and memory are asked for whenever the page is, and go when they are gone", async () => {
  const { metrics, samples } = metricsOf();
  metrics.rates = () => ({ prefillTokensPerSecond: 5_000, decodeTokensPerSecond: undefined });
  metrics.gpuMemoryBytes = async () => 1_024;
  expect(await samples("svc_engine_tokens_per_second")).toEqual(['svc_engine_tokens_per_second{phase="prefill"} 5000']);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual(["svc_engine_gpu_memory_bytes 1024"]);
  metrics.rates = () => ({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: 50 });
  metrics.gpuMemoryBytes = async () => {
    throw new Error("the device is gone");
  };
  expect(await samples("svc_engine_tokens_per_second")).toEqual(['svc_engine_tokens_per_second{phase="decode"} 50']);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual([]);
});

test("the page has every signal that a balancer or an alert looks at", async () => {
  const { samples, load } = metricsOf();
  load.kvUse = 0.5;
  const names = ["slots_total", "slots_busy", "queue", "kv_cache_usage_ratio", "step_age_seconds", "streams_paused"];
  for (const name of names) expect(await samples(`svc_engine_${name} `)).toHaveLength(1);
});
