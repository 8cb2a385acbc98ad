import { Gauge, type Registry } from "prom-client";
import type { BackendLoad } from "../backend.ts";
import type { Rates } from "../load/throughput.ts";

/** The values that a node reads whenever its metrics are scraped. */
export type NodeReadings = {
  readonly load: () => BackendLoad;
  readonly rates: () => Pick<Rates, "prefillTokensPerSecond" | "decodeTokensPerSecond">;
  readonly running: () => number;
  /** Returns the number of running generations that wait for a slow reader. */
  readonly pausedStreams: () => number;
  /**
   * Returns the milliseconds that running work has waited for a step, beyond the time that one may take; 0 without a
   * watchdog.
   */
  readonly stepAgeMs: () => number;
  /** Returns the GPU memory in use, in bytes; undefined without a GPU or if unknown. */
  readonly gpuMemoryBytes: () => Promise<number | undefined>;
};

/** Registers the gauges of a node. An unknown value is absent from the page rather than 0. */
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
  gauge("svc_engine_kv_cache_usage_ratio", "Fraction of the KV cache in use, 0 to 1, where known.", () => load().kvUse);
  gauge("svc_engine_streams_paused", "Generations that wait for a slow reader now.", pausedStreams);
  gauge(
    "svc_engine_step_age_seconds",
    "Seconds for which running work has waited for a step of the engine, beyond the time that one may take; 0 while steps advance or without a watchdog.",
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
