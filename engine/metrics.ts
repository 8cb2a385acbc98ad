import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { BackendLoad } from "./backend.ts";
import type { Rates } from "./load/throughput.ts";

const NO_RATES = { prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined };

/** The node's own measurements, in Prometheus' text form. Labels come from our tables, never from a request. */
export class EngineMetrics {
  readonly registry = new Registry();
  /** Generations that ended, by model and by the reason of their end: `ok` or an `ErrorReason`. */
  readonly generations: Counter<"model" | "reason">;
  readonly tokens: Counter<"model" | "type">;
  readonly timeToFirstDelta: Histogram<"model">;
  /** Of finished generations, as the backend measured it. */
  readonly timePerOutputToken: Histogram<"model">;
  readonly queueWait: Histogram<"model">;
  /** CountTokens calls, by model and by `ok` or an `ErrorReason`. */
  readonly counts: Counter<"model" | "reason">;
  /** Whole answers, and arguments of calls, that the request's schema does not allow. */
  readonly schemaMismatches: Counter<"model" | "part">;
  readonly running: Gauge;
  /** From the caller's leaving (or its deadline) to the backend's having let go of the slot. */
  readonly cancelLatency: Histogram;
  /** For how long running work has seen no step, in seconds; the server says how to find out. */
  stepAgeSeconds: () => number = () => 0;
  /** Generations that wait for slow readers; the server says how to find out. */
  pausedStreams: () => number = () => 0;
  /** How fast the node has lately been; the server says how to find out. */
  rates: () => Pick<Rates, "prefillTokensPerSecond" | "decodeTokensPerSecond"> = () => NO_RATES;
  /** GPU memory in use, in bytes; the server says how to find out. `undefined`: none, or nobody knows. */
  gpuMemoryBytes: () => Promise<number | undefined> = async () => undefined;

  constructor(load: () => BackendLoad) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.generations = new Counter({
      name: "svc_engine_generations_total",
      help: "Generations that ended, by reason.",
      labelNames: ["model", "reason"],
      registers,
    });
    this.tokens = new Counter({
      name: "svc_engine_tokens_total",
      help: "Tokens of finished generations: input, cached, output, reasoning.",
      labelNames: ["model", "type"],
      registers,
    });
    this.timeToFirstDelta = new Histogram({
      name: "svc_engine_time_to_first_delta_seconds",
      help: "From the call's arrival to its first delta.",
      labelNames: ["model"],
      buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600],
      registers,
    });
    this.timePerOutputToken = new Histogram({
      name: "svc_engine_time_per_output_token_seconds",
      help: "Time from the end of the prefill to the end of the answer, per output token.",
      labelNames: ["model"],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5],
      registers,
    });
    this.queueWait = new Histogram({
      name: "svc_engine_queue_wait_seconds",
      help: "Time from a request's arrival at the backend to its slot.",
      labelNames: ["model"],
      buckets: [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160],
      registers,
    });
    this.counts = new Counter({
      name: "svc_engine_count_tokens_total",
      help: "CountTokens calls that ended, by reason.",
      labelNames: ["model", "reason"],
      registers,
    });
    this.schemaMismatches = new Counter({
      name: "svc_engine_schema_mismatches_total",
      help: "Whole answers and call arguments that their schema does not allow, by part: answer, arguments.",
      labelNames: ["model", "part"],
      registers,
    });
    this.cancelLatency = new Histogram({
      name: "svc_engine_cancel_latency_seconds",
      help: "From the caller's leaving to the slot being free.",
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers,
    });
    this.running = new Gauge({ name: "svc_engine_running", help: "Generate calls that are open.", registers });
    const fromLoad = (name: string, help: string, value: (load: BackendLoad) => number | undefined) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          const now = value(load());
          if (now === undefined) this.remove();
          else this.set(now);
        },
      });
    fromLoad("svc_engine_slots_total", "Generations that can run at once.", (l) => l.slots);
    fromLoad("svc_engine_slots_busy", "Slots that a generation holds.", (l) => l.busySlots);
    fromLoad("svc_engine_queue", "Requests that wait for a slot.", (l) => l.waiting);
    fromLoad("svc_engine_kv_cache_usage_ratio", "Share of the KV memory in use, where known.", (l) => l.kvUse);
    const stepAge = () => this.stepAgeSeconds();
    fromLoad("svc_engine_streams_paused", "Generations that wait for a slow reader.", () => this.pausedStreams());
    fromLoad("svc_engine_step_age_seconds", "How long running work has seen no step.", stepAge);
    const rates = () => this.rates();
    new Gauge({
      name: "svc_engine_tokens_per_second",
      help: "Lately, by phase: uncached prompt tokens in prefill, tokens of one generation in decode.",
      labelNames: ["phase"],
      registers,
      collect() {
        const { prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = rates();
        this.reset();
        if (prefill !== undefined) this.set({ phase: "prefill" }, prefill);
        if (decode !== undefined) this.set({ phase: "decode" }, decode);
      },
    });
    const gpuMemory = () => this.gpuMemoryBytes();
    new Gauge({
      name: "svc_engine_gpu_memory_bytes",
      help: "GPU memory in use, where known.",
      registers,
      async collect() {
        const bytes = await gpuMemory().catch(() => undefined);
        if (bytes === undefined) this.remove();
        else this.set(bytes);
      },
    });
  }

  /** Serves `/metrics`; resolves to the port. */
  async listen(host: string, port: number): Promise<MetricsServer> {
    const server = createServer((request, response) => {
      if (request.url !== "/metrics" || request.method !== "GET") {
        response.writeHead(404).end();
        return;
      }
      this.registry.metrics().then(
        (text) => response.writeHead(200, { "content-type": this.registry.contentType }).end(text),
        () => response.writeHead(500).end(),
      );
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
    return { port: (server.address() as AddressInfo).port, close: () => closeServer(server) };
  }
}

export type MetricsServer = { readonly port: number; close(): Promise<void> };

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
