import { randomUUID } from "node:crypto";
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import {
  AlwaysOnSampler,
  type IdGenerator,
  SamplingDecision,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";
import { packageVersion } from "../../deploy/runtime/files/project-folder.ts";
import { sendLastSpans, traceExport } from "../../deploy/runtime/tracing/trace-export.ts";
import type { TracingConfig } from "../../deploy/runtime/tracing/tracing-schema.ts";
import type { Span, SpanAttributes, Tracing } from "./tracing.ts";

const KIND = { server: SpanKind.SERVER, internal: SpanKind.INTERNAL, client: SpanKind.CLIENT } as const;

/**
 * Starts to export the gateway's spans to the collector of the configuration. `nowMs` is a monotonic clock in
 * milliseconds.
 */
export function startTracing(config: TracingConfig, log: Logger, nowMs: () => number): Tracing {
  const self = { name: "svc-gateway", version: packageVersion(), instanceId: randomUUID() };
  return new SpanExport({ ...traceExport(config, self, log, nowMs), samplingRatio: config.samplingRatio });
}

export type SpanExportOptions = {
  /** The processor that takes finished spans and sends them in batches. */
  readonly processor: SpanProcessor;
  /** The description of this process that goes with every batch. */
  readonly resource: Resource;
  /** The share of traces that are sampled where their caller does not sample them, from 0 to 1. */
  readonly samplingRatio: number;
};

/**
 * Hands finished spans over to the SDK. Whether a trace is exported is decided before, from the whole request; so the
 * SDK's own sampler takes all it gets.
 */
export class SpanExport implements Tracing {
  readonly #processor: SpanProcessor;
  readonly #ids = new GivenIds();
  readonly #tracer;
  readonly #sampler: TraceIdRatioBasedSampler;

  constructor({ processor, resource, samplingRatio }: SpanExportOptions) {
    this.#processor = processor;
    this.#sampler = new TraceIdRatioBasedSampler(samplingRatio);
    const provider = new TracerProvider({
      resource,
      spanProcessors: [processor],
      idGenerator: this.#ids,
      sampler: new AlwaysOnSampler(),
    });
    this.#tracer = provider.getTracer("svc-gateway");
  }

  /**
   * Returns whether a trace that its caller does not sample is sampled from here on: by its id, for the configured
   * share.
   */
  headSampler(traceId: string): boolean {
    return this.#sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  }

  /** Hands the finished spans of one request to the SDK, which sends them in batches and drops those beyond its queue. */
  export(spans: readonly Span[]): void {
    for (const span of spans) this.#export(span);
  }

  /** Sends the remaining spans, within a bounded time, and never rejects. */
  close(): Promise<void> {
    return sendLastSpans(this.#processor);
  }

  #export(span: Span): void {
    this.#ids.next = span;
    const { name, kind, startMs: startTime, error } = span;
    const attributes = { ...known(span.attributes), ...(error !== undefined && { "error.type": error }) };
    const made = this.#tracer.startSpan(name, { kind: KIND[kind], startTime, attributes }, parentOf(span));
    for (const event of span.events) made.addEvent(event.name, event.atMs);
    if (error !== undefined) made.setStatus({ code: SpanStatusCode.ERROR });
    made.end(span.endMs);
  }
}

/** Gives spans their earlier ids: an engine has one of them as its parent. */
class GivenIds implements IdGenerator {
  next: Pick<Span, "traceId" | "spanId"> = { traceId: "", spanId: "" };

  generateTraceId(): string {
    return this.next.traceId;
  }

  generateSpanId(): string {
    return this.next.spanId;
  }
}

function parentOf({ traceId, parent }: Span): Context {
  if (!parent) return ROOT_CONTEXT;
  const { spanId, remote: isRemote } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, isRemote, traceFlags: TraceFlags.SAMPLED });
}

function known(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined)) as Attributes;
}
