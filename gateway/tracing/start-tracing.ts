import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { packageVersion } from "../../deploy/runtime/files/project-folder.ts";
import { traceExport } from "../../deploy/runtime/tracing/trace-export.ts";
import type { TracingConfig } from "../../deploy/runtime/tracing/tracing-schema.ts";
import { SpanExport } from "./span-export.ts";
import type { Tracing } from "./tracing.ts";

/**
 * Starts to export the gateway's spans to the collector of the configuration. `nowMs` is a monotonic clock in
 * milliseconds.
 */
export function startTracing(config: TracingConfig, log: Logger, nowMs: () => number): Tracing {
  const self = { name: "svc-gateway", version: packageVersion(), instanceId: randomUUID() };
  return new SpanExport({ ...traceExport(config, self, log, nowMs), samplingRatio: config.samplingRatio });
}
