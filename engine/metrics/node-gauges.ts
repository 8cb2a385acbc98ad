import { Gauge, type Registry } from "prom-client";
import type { BackendLoad } from "../backend.ts";
import type { Rates } from "../load/throughput.ts";

/** The readings that a node is asked for whenever its metrics are read. */
export type NodeReadings = {
  /** Gives the load of the backend now. */
  readonly load: () => BackendLoad;
  /** Gives the node's recent speeds, in tokens per second. */
  readonly rates: () => Pick<Rates, "prefillTokensPerSecond" | "decodeTokensPerSecond">;
  /** Gives the number of Generate calls that the backend works on. */
  readonly running: () => number;
  /** Gives how many of the running generations wait for a slow reader. */
  readonly pausedStreams: () => number;
  /** Gives for how many milliseconds running work has seen no step of the engine, beyond what one may take; 0 where nobody watches. */
  readonly stepAgeMs: () => number;
  /** Gives the GPU memory in use, in bytes; undefined where there is no GPU or nobody knows. */
  readonly gpuMemoryBytes: () => Promise<number | undefined>;
};

/** Adds the gauges of a node to its metrics. What is not known at a moment is left off the page rather than 0. */
export function registerNodeGauges(registry: Registry, readings: NodeReadings): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number | undefined | Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const now = await read();
        if (now === undefined) this.remove();
        else this.set(now);
      },
    });
  const { load, rates, running, pausedStreams, stepAgeMs, gpuMemoryBytes } = readings;
  gauge("svc_engine_running", "Generate calls that the backend works on now, waiting ones included.", running);
  gauge("svc_engine_slots", "Generations that the backend can run at once.", () => load().slots);
  gauge("svc_engine_slots_busy", "Slots of the backend that generations hold now.", () => load().busySlots);
  gauge("svc_engine_queue", "Generate calls that wait for a slot now.", () => load().waiting);
  gauge("svc_engine_kv_cache_usage_ratio", "Share of the KV memory in use, 0 to 1, where known.", () => load().kvUse);
  gauge("svc_engine_streams_paused", "Generations that wait for a slow reader now.", pausedStreams);
  gauge(
    "svc_engine_step_age_seconds",
    "Seconds for which running work has seen no step of the engine, beyond what one may take; 0 where it moves or nobody watches.",
    () => stepAgeMs() / 1000,
  );
  gauge("svc_engine_gpu_memory_bytes", "GPU memory in use in bytes, where known.", () =>
    gpuMemoryBytes().catch(() => undefined),
  );
  new Gauge({
    name: "svc_engine_tokens_per_second",
    help: "Recent speed in tokens per second by phase: uncached prompt tokens in prefill, tokens of one generation in decode.",
    labelNames: ["phase"],
    registers,
    collect() {
      const { prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = rates();
      this.reset();
      if (prefill !== undefined) this.set({ phase: "prefill" }, prefill);
      if (decode !== undefined) this.set({ phase: "decode" }, decode);
    },
  });
}
