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

/** The number of finished spans that may wait for their export; further ones are dropped. */
const MAX_QUEUE_SIZE = 2_048;

/** The time, in milliseconds, between two exports where OTEL_BSP_SCHEDULE_DELAY does not give it. */
const SCHEDULE_DELAY_MS = 5_000;

/** The milliseconds that the last export may take: a collector that is down must not keep a process from ending. */
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
 * Makes the exporter of spans: they go to a collector in batches from a bounded queue, and `log` gets failed exports.
 * An export may take as long as OTEL_EXPORTER_OTLP_TIMEOUT says, by default 10 s, its retries included.
 * The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word on what the spans say about the
 * process. `nowMs` returns monotonic milliseconds.
 */
export function traceExport(
  { otlpEndpoint }: TracingConfig,
  { name, version, instanceId }: TracedService,
  log: Logger,
  nowMs: () => number,
): TraceExport {
  diag.setLogger(exportLog(log, nowMs), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const exporter = new OTLPTraceExporter({
    ...(otlpEndpoint !== undefined && { url: `${otlpEndpoint.replace(/\/+$/, "")}/v1/traces` }),
    // All that may wait can go at once in the end.
    concurrencyLimit: Math.ceil(MAX_QUEUE_SIZE / BATCH_SIZE) + 1,
  });
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: MAX_QUEUE_SIZE,
    maxExportBatchSize: BATCH_SIZE,
    scheduledDelayMillis: scheduleDelayMs(process.env.OTEL_BSP_SCHEDULE_DELAY),
  });
  const self = { "service.name": name, "service.version": version, "service.instance.id": instanceId };
  const resource = defaultResource()
    .merge(resourceFromAttributes(self))
    .merge(detectResources({ detectors: [envDetector] }));
  return { processor, resource };
}

/** Returns the delay that the variable gives: the SDK of this version reads no OTEL_BSP_* variables. */
function scheduleDelayMs(text: string | undefined): number {
  const delayMs = Number(text);
  return Number.isSafeInteger(delayMs) && delayMs > 0 ? delayMs : SCHEDULE_DELAY_MS;
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
