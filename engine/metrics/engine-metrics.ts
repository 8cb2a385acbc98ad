import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { processRegistry } from "../../deploy/runtime/metrics/process-metrics.ts";
import type { BackendLoad } from "../backend.ts";
import { REASONS } from "../errors.ts";
import type { Rates } from "../load/throughput.ts";

/** The Prometheus metrics of a node. Labels come from tables of the node, never from a request. */
export class EngineMetrics {
  readonly registry = processRegistry();
  readonly #registers = [this.registry];

  readonly generations = new Counter({
    name: "svc_engine_generations_total",
    help: "Finished generations, by model and reason: ok, or the reason of the failure.",
    labelNames: ["model", "reason"],
    registers: this.#registers,
  });

  readonly tokens = new Counter({
    name: "svc_engine_tokens_total",
    help: "Tokens of finished generations, by model and type: input, cached (a part of input), output, reasoning (a part of output).",
    labelNames: ["model", "type"],
    registers: this.#registers,
  });

  readonly timeToFirstDelta = new Histogram({
    name: "svc_engine_time_to_first_delta_seconds",
    help: "Time from the arrival of a Generate call to its first delta, in seconds, by model.",
    labelNames: ["model"],
    buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 600],
    registers: this.#registers,
  });

  readonly timePerOutputToken = new Histogram({
    name: "svc_engine_time_per_output_token_seconds",
    help: "Time from the end of the prefill to the end of the answer per output token, in seconds, by model.",
    labelNames: ["model"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5],
    registers: this.#registers,
  });

  readonly queueWait = new Histogram({
    name: "svc_engine_queue_wait_seconds",
    help: "Time from a request's arrival at the backend to its slot, in seconds, by model.",
    labelNames: ["model"],
    buckets: [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160],
    registers: this.#registers,
  });

  readonly counts = new Counter({
    name: "svc_engine_count_tokens_total",
    help: "Finished CountTokens calls, by model and reason: ok, or the reason of the failure.",
    labelNames: ["model", "reason"],
    registers: this.#registers,
  });

  readonly schemaMismatches = new Counter({
    name: "svc_engine_schema_mismatches_total",
    help: "Whole answers and call arguments that violate their schema, by model and part: answer, arguments.",
    labelNames: ["model", "part"],
    registers: this.#registers,
  });

  readonly schemaUnchecked = new Counter({
    name: "svc_engine_schema_unchecked_total",
    help: "Whole answers and call arguments that were not checked, because their schema is invalid or too costly, by model.",
    labelNames: ["model"],
    registers: this.#registers,
  });

  readonly callerWork = new Counter({
    name: "svc_engine_caller_work_total",
    help: "Worker jobs that callers' input caused, by kind and outcome: whole, partly (up to its budget), refused, given_up (time or memory limit), failed (a fault of the node).",
    labelNames: ["kind", "outcome"],
    registers: this.#registers,
  });

  readonly cancelLatency = new Histogram({
    name: "svc_engine_cancel_latency_seconds",
    help: "Time from a caller's cancellation or deadline to the release of its slot, in seconds.",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers: this.#registers,
  });

  readonly prefixContradictions = new Counter({
    name: "svc_engine_prefix_contradictions_total",
    help: "Prompts of which the engine found other tokens cached than the node announces, by found: more, less.",
    labelNames: ["found"],
    registers: this.#registers,
  });

  readonly callsRefused = new Counter({
    name: "svc_engine_connection_refusals_total",
    help: "Calls refused because their connection exceeded a limit, by limit: request_bytes, watches.",
    labelNames: ["limit"],
    registers: this.#registers,
  });

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
  const { load, running, pausedStreams, stepAgeMs, promptBytes, gpuMemoryBytes } = readings;
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
  gauge("svc_engine_own_rendering", "1 where the node renders prompts beside an engine, 0 where it had to stop.", () =>
    load().ownRendering === undefined ? undefined : Number(load().ownRendering),
  );
  gauge("svc_engine_kept_prompts_bytes", "Bytes of messages of earlier prompts, at most.", promptBytes);
  registerByLabel(registers, readings);
}

function registerByLabel(registers: Registry[], { load, rates, engine }: NodeReadings): void {
  const labelled = (
    Type: typeof Gauge<string> | typeof Counter<string>,
    [name, help]: readonly [name: string, help: string],
    label: string,
    read: () => Readonly<Record<string, number | undefined>>,
  ) =>
    new Type({
      name,
      help,
      labelNames: [label],
      registers,
      collect() {
        this.reset();
        for (const [of, value] of Object.entries(read())) if (value !== undefined) this.inc({ [label]: of }, value);
      },
    });
  const info = "1, by engine: its version and, of llama.cpp, the device, its layers of all, and the KV memory.";
  labelled(Gauge, ["svc_engine_info", info], "engine", () => ({ [engine()]: 1 }));
  const memory = "KV memory in bytes where known, by state: reserved, or held, the part of it with tokens.";
  labelled(Gauge, ["svc_engine_kv_memory_bytes", memory], "state", () => load().kvMemory ?? {});
  const tokens = "Tokens of prompts by how the node got them: known from earlier prompts, or tokenized.";
  labelled(Counter, ["svc_engine_prompt_tokens_total", tokens], "how", () => load().promptTokens ?? {});
  const passes =
    "Passes of llama.cpp over the weights, by cause: step, or gap, one more because running sequences lay apart.";
  labelled(Counter, ["svc_engine_decoder_passes_total", passes], "cause", () => load().passes ?? {});
  const speed =
    "Recent speed in tokens per second by phase: uncached prompt tokens in prefill, tokens of one generation in decode.";
  labelled(Gauge, ["svc_engine_tokens_per_second", speed], "phase", () => {
    const { prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = rates();
    return { prefill, decode };
  });
}
