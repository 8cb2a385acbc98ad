import { Registry } from "prom-client";
import { afterEach, expect, test } from "vitest";
import type { BackendLoad } from "../../../engine/backend.ts";
import { EngineMetrics, type NodeReadings, registerNodeGauges } from "../../../engine/metrics/engine-metrics.ts";
import { type MetricsServer, serveMetrics } from "../../../engine/metrics/metrics-server.ts";
import type { NodePhase } from "../../../engine/node/node-state.ts";

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

const node: { phase: NodePhase; engineHung: boolean } = { phase: "loading", engineHung: false };
let server: MetricsServer | undefined;
afterEach(() => server?.close());

const get = (path: string, method = "GET") => fetch(`http://127.0.0.1:${server?.port}${path}`, { method });

test("probes report whether the process lives, and whether the node accepts calls", async () => {
  server = await serveMetrics(new Registry(), node, { host: "127.0.0.1", port: 0 });
  const said: unknown[] = [];
  for (node.phase of ["loading", "serving", "stalled", "draining"] as const) {
    const ready = await get("/readyz");
    said.push([(await get("/healthz")).status, ready.status, await ready.text()]);
  }
  expect(said).toEqual([
    [200, 503, "loading\n"],
    [200, 200, "serving\n"],
    [200, 503, "stalled\n"],
    [200, 503, "draining\n"],
  ]);
});

test("other paths return 404", async () => {
  server = await serveMetrics(new Registry(), node, { host: "127.0.0.1", port: 0 });
  expect((await get("/metrics")).headers.get("content-type")).toMatch(/^text\/plain/);
  for (const path of ["/", "/constructor", "/readyz/", "/livez"]) expect((await get(path)).status).toBe(404);
  expect((await get("/metrics", "POST")).status).toBe(404);
});

const UNKNOWN: NodeReadings = {
  load: () => ({ slots: 4, busySlots: 1, waiting: 2 }),
  rates: () => ({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined }),
  running: () => 1,
  pausedStreams: () => 0,
  stepAgeMs: () => 1_500,
  promptBytes: () => 0,
  gpuMemoryBytes: async () => undefined,
  engine: () => "llama.cpp b1; CPU",
};

/** Reads the samples of one metric from the page. */
function pageOf(readings: Partial<NodeReadings> = {}) {
  const metrics = new EngineMetrics();
  registerNodeGauges(metrics, { ...UNKNOWN, ...readings });
  return async (name: string) => (await metrics.registry.metrics()).split("\n").filter((line) => line.startsWith(name));
}

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
  expect(await samples("svc_engine_info")).toEqual(['svc_engine_info{engine="llama.cpp b1; CPU"} 1']);
  for (const name of ["decoder_passes_total", "kv_memory_bytes"])
    expect(await samples(`svc_engine_${name}`)).toEqual([]);
  const kvMemory = { reserved: 1_024, held: 16 };
  const counted = pageOf({ load: () => ({ ...load, kvMemory, passes: { step: 10, gap: 2 } }) });
  expect(await counted("svc_engine_kv_memory_bytes")).toEqual([
    'svc_engine_kv_memory_bytes{state="reserved"} 1024',
    'svc_engine_kv_memory_bytes{state="held"} 16',
  ]);
  expect(await counted("svc_engine_decoder_passes_total")).toEqual([
    'svc_engine_decoder_passes_total{cause="step"} 10',
    'svc_engine_decoder_passes_total{cause="gap"} 2',
  ]);
});
