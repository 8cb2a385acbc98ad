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

/** Spans in one export. */
const BATCH_SIZE = 512;

/** Milliseconds that the last export may take: a collector that is down must not keep a process from ending. */
const LAST_EXPORT_MS = 3_000;

/** Who exports: OpenTelemetry's `service.name`, `service.version` and `service.instance.id`. */
export type TracedService = {
  readonly name: string;
  readonly version: string;
  readonly instanceId: string;
};

/** The way of spans to a collector, and what they say about the process they come from. */
export type TraceExport = {
  readonly processor: SpanProcessor;
  readonly resource: Resource;
};

/**
 * The way to a collector: spans go in batches from a bounded queue. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the
 * last word on who this is. `nowMs`: monotonic.
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
    // All that may wait can go at once in the end.
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

/** Sends the spans that wait, for at most three seconds, and closes `processor`. Never rejects. */
export async function sendLastSpans(processor: SpanProcessor): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LAST_EXPORT_MS);
  });
  await Promise.race([processor.shutdown().catch(() => {}), late]);
  clearTimeout(timer);
}
