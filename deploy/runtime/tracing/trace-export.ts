import { DiagLogLevel, diag } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanProcessor } from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";
import { exportLog } from "./export-log.ts";
import type { TracingConfig } from "./tracing-schema.ts";

/** Most spans of one export. */
const BATCH_SIZE = 512;

/** Time limit of the last export, in milliseconds: a collector that is down must not keep a process from exiting. */
const LAST_EXPORT_MS = 3_000;

/** The process in exported spans: OpenTelemetry's `service.name`, `service.version` and `service.instance.id`. */
export type TracedService = {
  readonly name: string;
  readonly version: string;
  readonly instanceId: string;
};

/** The span processor and the resource of a process. */
export type TraceExport = {
  /** Exports finished spans in batches. */
  readonly processor: SpanProcessor;
  /** Attributes of the process, sent with every span. */
  readonly resource: Resource;
};

/**
 * Makes the export of spans to a collector: in batches from a bounded queue; failed exports are logged to `log`. The
 * variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the attributes of the process. `nowMs` returns
 * monotonic milliseconds.
 */
export function traceExport(
  { otlpEndpoint, maxQueueSize, scheduleDelayMs, exportTimeoutMs }: TracingConfig,
  { name, version, instanceId }: TracedService,
  log: Logger,
  nowMs: () => number,
): TraceExport {
  diag.setLogger(exportLog(log, nowMs), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const exporter = new OTLPTraceExporter({
    ...(otlpEndpoint !== undefined && { url: `${otlpEndpoint.replace(/\/+$/, "")}/v1/traces` }),
    timeoutMillis: exportTimeoutMs,
    // All waiting spans can be sent at once at the end.
    concurrencyLimit: Math.ceil(maxQueueSize / BATCH_SIZE) + 1,
  });
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize,
    maxExportBatchSize: BATCH_SIZE,
    scheduledDelayMillis: scheduleDelayMs,
    exportTimeoutMillis: exportTimeoutMs,
  });
  const self = { "service.name": name, "service.version": version, "service.instance.id": instanceId };
  const resource = defaultResource()
    .merge(resourceFromAttributes(self))
    .merge(detectResources({ detectors: [envDetector] }));
  return { processor, resource };
}

/** Sends the waiting spans, for at most three seconds, and closes `processor`. Never rejects. */
export async function sendLastSpans(processor: SpanProcessor): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LAST_EXPORT_MS);
  });
  await Promise.race([processor.shutdown().catch(() => {}), late]);
  clearTimeout(timer);
}
