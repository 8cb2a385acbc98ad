import { Registry } from "prom-client";
import { expect, test } from "vitest";
import type { BackendLoad } from "../../../../engine/backend.ts";
import { type NodeReadings, registerNodeGauges } from "../../../../engine/metrics/engine-metrics.ts";

const UNKNOWN: NodeReadings = {
  load: () => ({ slots: 4, busySlots: 1, waiting: 2 }),
  rates: () => ({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined }),
  running: () => 1,
  pausedStreams: () => 0,
  stepAgeMs: () => 1_500,
  gpuMemoryBytes: async () => undefined,
};

/** Reads the samples of one metric from the page. */
function pageOf(readings: Partial<NodeReadings> = {}) {
  const registry = new Registry();
  registerNodeGauges(registry, { ...UNKNOWN, ...readings });
  return async (name: string) => (await registry.metrics()).split("\n").filter((line) => line.startsWith(name));
}

test("an unknown value is absent from the page rather than 0", async () => {
  const samples = pageOf();
  expect(await samples("svc_engine_tokens_per_second")).toEqual([]);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual([]);
  expect(await samples("svc_engine_kv_cache_usage_ratio")).toEqual([]);
});

test("speeds and memory are read at each scrape, and removed once unknown", async () => {
  let rates: ReturnType<NodeReadings["rates"]> = { prefillTokensPerSecond: 5_000, decodeTokensPerSecond: undefined };
  let gpuMemoryBytes: NodeReadings["gpuMemoryBytes"] = async () => 1_024;
  const samples = pageOf({ rates: () => rates, gpuMemoryBytes: () => gpuMemoryBytes() });
  expect(await samples("svc_engine_tokens_per_second")).toEqual(['svc_engine_tokens_per_second{phase="prefill"} 5000']);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual(["svc_engine_gpu_memory_bytes 1024"]);
  rates = { prefillTokensPerSecond: undefined, decodeTokensPerSecond: 50 };
  gpuMemoryBytes = async () => {
    throw new Error("the device is gone");
  };
  expect(await samples("svc_engine_tokens_per_second")).toEqual(['svc_engine_tokens_per_second{phase="decode"} 50']);
  expect(await samples("svc_engine_gpu_memory_bytes")).toEqual([]);
});

test("the page has every metric that a balancer or an alert uses", async () => {
  const load: BackendLoad = { slots: 4, busySlots: 1, waiting: 2, kvUse: 0.5 };
  const samples = pageOf({ load: () => load });
  const values = { running: 1, slots: 4, slots_busy: 1, queue: 2, kv_cache_usage_ratio: 0.5, streams_paused: 0 };
  for (const [name, value] of Object.entries({ ...values, step_age_seconds: 1.5 }))
    expect(await samples(`svc_engine_${name} `)).toEqual([`svc_engine_${name} ${value}`]);
});
