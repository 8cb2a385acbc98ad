import type { Logger } from "pino";
import { packageVersion } from "../../deploy/runtime/files/project-folder.ts";
import { traceExport } from "../../deploy/runtime/tracing/trace-export.ts";
import type { TracingConfig } from "../../deploy/runtime/tracing/tracing-schema.ts";
import { GenerationTracing } from "./generation-tracing.ts";
import type { Tracing } from "./tracing.ts";

/** Starts the tracing of a node. `nowMs` is a monotonic clock in milliseconds; the caller closes the result. */
export function startTracing(config: TracingConfig, nodeId: string, log: Logger, nowMs: () => number): Tracing {
  const self = { name: "svc-engine", version: packageVersion(), instanceId: nodeId };
  return new GenerationTracing({ ...traceExport(config, self, log, nowMs), samplingRatio: config.samplingRatio });
}
