import type { GoneKeys } from "../deploy/runtime/config/gone-keys.ts";

const FOUND = { removed: "the node finds the events on the engine's own pages" } as const;
const NOT_PLAYED = { removed: "the backend for trials plays one fixed answer" } as const;

/** Keys of earlier releases, with what became of them. */
export const GONE_KEYS: GoneKeys = {
  livenessStepAgeMs: { removed: "it is ten times maxStepAgeMs" },
  "connection.maxCalls": { now: "16384" },
  "connection.maxRequestBytes": { now: "1073741824" },
  "connection.maxWatches": { now: "256" },
  "metrics.vllmNames": { removed: "each metric has one name" },
  "tracing.exportTimeoutMs": { removed: "set OTEL_EXPORTER_OTLP_TIMEOUT; default 10000" },
  "tracing.maxQueueSize": { now: "2048" },
  "tracing.scheduleDelayMs": { removed: "set OTEL_BSP_SCHEDULE_DELAY; default 5000" },
  "backend.batchTokens": { now: "512 on accelerators, else 256" },
  "backend.countTimeoutMs": { now: "30000" },
  "backend.endRepetition": { removed: "no answer is ended for what it repeats" },
  "backend.kvEvents": FOUND,
  "backend.loadIntervalMs": { now: "1000" },
  "backend.lockMemory": { now: "false" },
  "backend.maxQueueWaitMs": { now: "30000" },
  "backend.memoryMap": { now: "auto" },
  "backend.queueLength": { now: "64" },
  "backend.silenceTimeoutMs": { now: "600000" },
  "backend.startTimeoutMs": { now: "3600000" },
  "backend.answerTokens": NOT_PLAYED,
  "backend.failure": NOT_PLAYED,
  "backend.jitter": NOT_PLAYED,
  "backend.kvTokens": NOT_PLAYED,
  "backend.prefillTokensPerSecond": NOT_PLAYED,
  "backend.script": NOT_PLAYED,
  "backend.seed": NOT_PLAYED,
  "backend.stepProcess": NOT_PLAYED,
  "backend.timeToFirstTokenMs": NOT_PLAYED,
  "backend.tokensPerSecond": NOT_PLAYED,
  "backend.transcript": NOT_PLAYED,
};
