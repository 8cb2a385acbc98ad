import type { DiagLogger } from "@opentelemetry/api";
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
import type { TracingConfig } from "./tracing-schema.ts";

const BATCH_SIZE = 512;

/** The number of finished spans that may wait for their export; further ones are dropped. */
const MAX_QUEUE_SIZE = 2_048;

/** The time, in milliseconds, between two exports where OTEL_BSP_SCHEDULE_DELAY does not give it. */
const SCHEDULE_DELAY_MS = 5_000;

/** The milliseconds that the last export may take: a collector that is down must not keep a process from ending. */
const LAST_EXPORT_MS = 3_000;

export type TracedService = {
  readonly name: string;
  readonly version: string;
  readonly instanceId: string;
};

export type TraceExport = {
  readonly processor: SpanProcessor;
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

/** Least milliseconds between two lines: every export to a collector that is down fails. */
const BETWEEN_LINES_MS = 60_000;

/**
 * Makes the logger that writes errors of the SDK to `log`, at most one line a minute; the field `unsaid` counts the
 * errors omitted since the line before. `nowMs` returns monotonic milliseconds.
 * The SDK reports a failed export as JSON. Only its code, or the SDK's own message, is logged: the rest may be text of
 * the collector.
 */
export function exportLog(log: Logger, nowMs: () => number): DiagLogger {
  let nextMs = Number.NEGATIVE_INFINITY;
  let unsaid = 0;
  const say = (complaint: string) => {
    const now = nowMs();
    if (now < nextMs) {
      unsaid += 1;
    } else {
      log.warn(
        { reason: reasonOf(complaint).slice(0, 200), ...(unsaid > 0 && { unsaid }) },
        "traces cannot be exported",
      );
      nextMs = now + BETWEEN_LINES_MS;
      unsaid = 0;
    }
  };
  const silent = () => {};
  return { error: say, warn: say, info: silent, debug: silent, verbose: silent };
}

function reasonOf(complaint: string): string {
  if (!complaint.startsWith("{")) return complaint;
  const { code, message } = JSON.parse(complaint);
  return String(code ?? message);
}
