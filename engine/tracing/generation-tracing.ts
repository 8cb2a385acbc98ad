import { ROOT_CONTEXT, type SpanContext, SpanKind, SpanStatusCode, type Tracer, trace } from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import {
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";
import { packageVersion } from "../../deploy/runtime/files/project-folder.ts";
import { durationMs } from "../../deploy/runtime/time/clock.ts";
import { sendLastSpans, traceExport } from "../../deploy/runtime/tracing/trace-export.ts";
import type { TracingConfig } from "../../deploy/runtime/tracing/tracing-schema.ts";
import { type GenerationFacts, shownId } from "../calls/call-log.ts";
import { grpcStatusOf, NODE_FAULTS } from "../errors.ts";

const METHOD = "svc.inference.v1.InferenceService/Generate";
/** A `traceparent` of W3C Trace Context: all versions but ff. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/;

export type GenerationTracingOptions = {
  readonly processor: SpanProcessor;
  readonly resource: Resource;
  /** The fraction of traces that begin at this node to export, from 0 to 1; other traces follow their caller. */
  readonly samplingRatio: number;
};

/** Creates a server span for each finished generation. Failed ones are exported whatever the sampling decision. */
export class GenerationTracing {
  readonly #processor: SpanProcessor;
  readonly #sampled: Tracer;
  readonly #always: Tracer;

  constructor({ processor, resource, samplingRatio }: GenerationTracingOptions) {
    this.#processor = processor;
    const tracer = (sampler: Sampler) =>
      new TracerProvider({ resource, spanProcessors: [processor], sampler }).getTracer("svc-engine");
    this.#sampled = tracer(new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplingRatio) }));
    this.#always = tracer(new AlwaysOnSampler());
  }

  /** Creates a span, as a child of that in the header `traceparent`, if any. `endMs` is since the epoch. Never waits. */
  generation(traceparent: unknown, facts: GenerationFacts, endMs: number): void {
    const { failure, finished, firstDeltaMs, totalMs, model, requestId } = facts;
    const failed = failure !== undefined && isFault(facts);
    const parent = parentOf(traceparent);
    const startTime = endMs - totalMs;
    const span = (failed ? this.#always : this.#sampled).startSpan(
      METHOD,
      {
        kind: SpanKind.SERVER,
        startTime,
        attributes: {
          "rpc.system.name": "grpc",
          "rpc.method": METHOD,
          "rpc.response.status_code": grpcStatusOf(failure),
          "gen_ai.request.model": model,
          "svc.request_id": shownId(requestId),
        },
      },
      parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT,
    );
    if (finished?.usage) {
      span.setAttribute("gen_ai.usage.input_tokens", finished.usage.inputTokens);
      span.setAttribute("gen_ai.usage.cache_read.input_tokens", finished.usage.cachedInputTokens);
      span.setAttribute("gen_ai.usage.output_tokens", finished.usage.outputTokens);
    }
    if (failure) span.setAttribute("error.type", failure.reason);
    if (failed) span.setStatus({ code: SpanStatusCode.ERROR });
    if (finished?.timings?.queue) span.addEvent("accepted", startTime + durationMs(finished.timings.queue));
    if (firstDeltaMs !== undefined) span.addEvent("first_delta", startTime + firstDeltaMs);
    if (finished) span.addEvent("finish", endMs);
    span.end(endMs);
  }

  /** Sends the remaining spans within a bounded time. Never rejects. */
  close(): Promise<void> {
    return sendLastSpans(this.#processor);
  }
}

/** Faults of the node, deadlines, and answers that broke off are errors; callers that left are not. */
function isFault({ failure, firstDeltaMs }: GenerationFacts): boolean {
  if (!failure) return false;
  const { reason } = failure;
  return NODE_FAULTS.has(reason) || reason === "DEADLINE" || (firstDeltaMs !== undefined && reason !== "CANCELLED");
}

function parentOf(traceparent: unknown): SpanContext | undefined {
  const [, traceId, spanId, flags] = (typeof traceparent === "string" && TRACEPARENT.exec(traceparent)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

/** Starts the tracing of a node. `nowMs` is a monotonic clock in milliseconds; the caller closes the result. */
export function startTracing(
  config: TracingConfig,
  nodeId: string,
  log: Logger,
  nowMs: () => number,
): GenerationTracing {
  const self = { name: "svc-engine", version: packageVersion(), instanceId: nodeId };
  return new GenerationTracing({ ...traceExport(config, self, log, nowMs), samplingRatio: config.samplingRatio });
}
