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

describe("sampling by id", () => {
  const share = (samplingRatio: number) => {
    const processor = new SimpleSpanProcessor({ exporter: new InMemorySpanExporter() });
    const tracing = new SpanExport({ processor, resource, samplingRatio });
    const ids = Array.from({ length: 1_000 }, (_, i) =>
      ((i + 1) * 4_294_967).toString(16).padStart(8, "0").padEnd(32, "0"),
    );
    return ids.filter((id) => tracing.headSampler(id)).length;
  };

  test("sampling by id takes all, none, or about the share that was asked for", () => {
    expect([share(1), share(0)]).toEqual([1_000, 0]);
    expect(share(0.25)).toBeGreaterThan(230);
    expect(share(0.25)).toBeLessThan(270);
  });
});

describe("a collector that never answers", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  test("a collector that never answers does not delay the end, and no more spans than the queue holds wait for it", async () => {
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
