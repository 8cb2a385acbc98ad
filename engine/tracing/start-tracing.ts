import type { Logger } from "pino";
import { packageVersion } from "../../deploy/process/project-folder.ts";
import { traceExport } from "../../deploy/process/trace-export.ts";
import type { TracingConfig } from "../../deploy/process/tracing-schema.ts";
import { GenerationTracing } from "./generation-tracing.ts";
import type { Tracing } from "./tracing.ts";

/** `nowMs`: monotonic milliseconds. */
export function startTracing(config: TracingConfig, nodeId: string, log: Logger, nowMs: () => number): Tracing {
  const self = { name: "svc-engine", version: packageVersion(), instanceId: nodeId };
  return new GenerationTracing({ ...traceExport(config, self, log, nowMs), samplingRatio: config.samplingRatio });
}
