import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type SpanExporter,
} from "@opentelemetry/sdk-trace";
import { afterEach, describe, expect, test, vi } from "vitest";
import { SpanExport } from "../../../../gateway/tracing/span-export.ts";
import type { Span } from "../../../../gateway/tracing/tracing.ts";

const resource = resourceFromAttributes({ "service.name": "test" });

const SPAN: Span = {
  name: "POST /v1/messages",
  kind: "server",
  traceId: "a".repeat(32),
  spanId: "b".repeat(16),
  parent: undefined,
  startMs: 1_700_000_000_000.5,
  endMs: 1_700_000_000_002,
  attributes: { "http.route": "/v1/messages", "svc.end_reason": undefined },
  events: [{ name: "retry", atMs: 1_700_000_000_001 }],
  error: undefined,
};

function exported(...spans: readonly Span[]) {
  const exporter = new InMemorySpanExporter();
  new SpanExport({ processor: new SimpleSpanProcessor({ exporter }), resource, samplingRatio: 0 }).export(spans);
  return exporter.getFinishedSpans();
}

describe("a span", () => {
  test("keeps the ids and times that it was given", () => {
    const [span] = exported(SPAN);
    expect(span?.spanContext()).toMatchObject({ traceId: SPAN.traceId, spanId: SPAN.spanId, traceFlags: 1 });
    expect(span?.parentSpanContext).toBeUndefined();
    expect([span?.startTime, span?.endTime]).toEqual([
      [1_700_000_000, 500_000],
      [1_700_000_000, 2_000_000],
    ]);
    expect(span?.events).toMatchObject([{ name: "retry", time: [1_700_000_000, 1_000_000] }]);
    expect(span?.attributes).toEqual({ "http.route": "/v1/messages" });
    expect(span?.status.code).toBe(0);
  });

  test("has the parent that it was given, of this process or of another", () => {
    const [own, other] = exported(
      { ...SPAN, parent: { spanId: "c".repeat(16), remote: false } },
      { ...SPAN, parent: { spanId: "d".repeat(16), remote: true } },
    );
    expect(own?.parentSpanContext).toMatchObject({ traceId: SPAN.traceId, spanId: "c".repeat(16), isRemote: false });
    expect(other?.parentSpanContext).toMatchObject({ spanId: "d".repeat(16), isRemote: true });
    expect(own?.spanContext().spanId).toBe(SPAN.spanId);
  });

  test("that failed has the status of an error, and its token", () => {
    const [span] = exported({ ...SPAN, error: "upstream_reset" });
    expect(span?.status).toEqual({ code: 2 });
    expect(span?.attributes["error.type"]).toBe("upstream_reset");
  });
});

describe("sampling by id", () => {
  const share = (samplingRatio: number) => {
    const processor = new SimpleSpanProcessor({ exporter: new InMemorySpanExporter() });
    const tracing = new SpanExport({ processor, resource, samplingRatio });
    const ids = Array.from({ length: 1_000 }, (_, i) =>
      ((i + 1) * 4_294_967).toString(16).padStart(8, "0").padEnd(32, "0"),
    );
    return ids.filter((id) => tracing.headSampler(id)).length;
  };

  test("takes all, none, or about the share that was asked for", () => {
    expect([share(1), share(0)]).toEqual([1_000, 0]);
    expect(share(0.25)).toBeGreaterThan(230);
    expect(share(0.25)).toBeLessThan(270);
  });
});

describe("a collector that never answers", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  test("does not delay the end, and no more spans than the queue holds wait for it", async () => {
    vi.useFakeTimers();
    let taken = 0;
    const exporter: SpanExporter = {
      export: (spans) => {
        taken += spans.length;
      },
      shutdown: () => new Promise(() => {}),
    };
    const processor = new BatchSpanProcessor({ exporter, maxQueueSize: 512, maxExportBatchSize: 512 });
    const tracing = new SpanExport({ processor, resource, samplingRatio: 1 });
    tracing.export(Array.from({ length: 5_000 }, () => SPAN));
    let closed = false;
    const closing = tracing.close().then(() => {
      closed = true;
    });
    await vi.advanceTimersByTimeAsync(2_999);
    expect(closed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await closing;
    // One batch that is being sent, and one that waited.
    expect(taken).toBe(1_024);
  });
});
