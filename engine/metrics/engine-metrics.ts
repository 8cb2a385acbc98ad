import { Metrics } from "../../deploy/runtime/metrics/metric-table.ts";
import { processRegistry } from "../../deploy/runtime/metrics/process-metrics.ts";
import type { BackendLoad } from "../backend.ts";
import { REASONS } from "../errors.ts";
import type { Rates } from "../load/throughput.ts";
import { METRICS } from "./metrics.ts";

/** The Prometheus metrics of a node. Labels come from tables of the node, never from a request. */
export class EngineMetrics extends Metrics<typeof METRICS> {
  readonly generations = this.metric("svc_engine_generations_total");
  readonly tokens = this.metric("svc_engine_tokens_total");
  readonly timeToFirstDelta = this.metric("svc_engine_time_to_first_delta_seconds");
  readonly timePerOutputToken = this.metric("svc_engine_time_per_output_token_seconds");
  readonly queueWait = this.metric("svc_engine_queue_wait_seconds");
  readonly counts = this.metric("svc_engine_count_tokens_total");
  readonly schemaMismatches = this.metric("svc_engine_schema_mismatches_total");
  readonly schemaUnchecked = this.metric("svc_engine_schema_unchecked_total");
  readonly callerWork = this.metric("svc_engine_caller_work_total");
  readonly cancelLatency = this.metric("svc_engine_cancel_latency_seconds");
  readonly prefixContradictions = this.metric("svc_engine_prefix_contradictions_total");
  readonly callsRefused = this.metric("svc_engine_connection_refusals_total");

  constructor() {
    super(METRICS, processRegistry());
  }

  /** Creates all series of these models and job kinds at 0: `rate` misses the first event of a new series. */
  startAtZero(models: readonly string[], workKinds: readonly string[]): void {
    for (const model of models) {
      for (const reason of ["ok", ...Object.keys(REASONS)]) this.generations.inc({ model, reason }, 0);
      for (const type of ["input", "cached", "output", "reasoning"]) this.tokens.inc({ model, type }, 0);
      for (const part of ["answer", "arguments"]) this.schemaMismatches.inc({ model, part }, 0);
      this.schemaUnchecked.inc({ model }, 0);
    }
    for (const found of ["more", "less"]) this.prefixContradictions.inc({ found }, 0);
    for (const kind of workKinds) this.callerWork.inc({ kind, outcome: "failed" }, 0);
  }
}

export type NodeReadings = {
  readonly load: () => BackendLoad;
  readonly rates: () => Pick<Rates, "prefillTokensPerSecond" | "decodeTokensPerSecond">;
  readonly running: () => number;
  readonly pausedStreams: () => number;
  /** Returns the age of an overdue step in milliseconds; 0 without a watchdog. */
  readonly stepAgeMs: () => number;
  /** Returns the GPU memory in use, in bytes; undefined without a GPU or if unknown. */
  readonly gpuMemoryBytes: () => Promise<number | undefined>;
  /** Returns the bytes of the messages of prompts that the node keeps. */
  readonly promptBytes: () => number;
  /** Returns the engine's version and setup, for people; empty if unknown. */
  readonly engine: () => string;
};

/** Registers the gauges of a node. An unknown value is absent from the page rather than 0. */
export function registerNodeGauges(metrics: Pick<EngineMetrics, "read">, readings: NodeReadings): void {
  const { load, rates, engine, running, pausedStreams, stepAgeMs, promptBytes, gpuMemoryBytes } = readings;
  metrics.read({
    svc_engine_running: running,
    svc_engine_slots: () => load().slots,
    svc_engine_slots_busy: () => load().busySlots,
    svc_engine_queue: () => load().waiting,
    svc_engine_kv_cache_usage_ratio: () => load().kvUse,
    svc_engine_streams_paused: pausedStreams,
    svc_engine_step_age_seconds: () => stepAgeMs() / 1000,
    svc_engine_gpu_memory_bytes: () => gpuMemoryBytes().catch(() => undefined),
    svc_engine_own_rendering: () => {
      const { ownRendering } = load();
      return ownRendering === undefined ? undefined : Number(ownRendering);
    },
    svc_engine_kept_prompts_bytes: promptBytes,
    svc_engine_info: () => [[{ engine: engine() }, 1]],
    svc_engine_kv_memory_bytes: () => each(load().kvMemory).map(([state, bytes]) => [{ state }, bytes]),
    svc_engine_prompt_tokens_total: () => each(load().promptTokens).map(([how, tokens]) => [{ how }, tokens]),
    svc_engine_decoder_passes_total: () => each(load().passes).map(([cause, passes]) => [{ cause }, passes]),
    svc_engine_tokens_per_second: () => {
      const { prefillTokensPerSecond, decodeTokensPerSecond } = rates();
      return [
        [{ phase: "prefill" }, prefillTokensPerSecond],
        [{ phase: "decode" }, decodeTokensPerSecond],
      ];
    },
  });
}

function each(counts: Readonly<Record<string, number>> = {}): [name: string, count: number][] {
  return Object.entries(counts);
}
