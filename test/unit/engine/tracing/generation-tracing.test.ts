import { resourceFromAttributes } from "@opentelemetry/resources";
import { InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace";
import { describe, expect, test } from "vitest";
import type { GenerationFacts } from "../../../../engine/calls/call-log.ts";
import { EngineError, type ErrorReason } from "../../../../engine/errors.ts";
import { GenerationTracing } from "../../../../engine/tracing/generation-tracing.ts";
import { FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";

const TRACE = "a".repeat(32);
const PARENT = "b".repeat(16);
const END_MS = 1_700_000_001_000;

const DONE: GenerationFacts = {
  requestId: "req_1",
  model: "svc-qwen",
  failure: undefined,
  finished: {
    reason: FinishReason.STOP,
    usage: { inputTokens: 12, cachedInputTokens: 8, cacheWriteTokens: 0, outputTokens: 7, reasoningTokens: 0 },
    timings: { queue: { seconds: 0, nanos: 20_000_000 }, prefill: undefined, decode: undefined },
  } as GenerationFacts["finished"],
  firstDeltaMs: 50,
  checked: { mismatches: [], unchecked: 0 },
  totalMs: 1_000,
  continuedTokens: 0,
  cancelMs: undefined,
};

function failedWith(reason: ErrorReason, firstDeltaMs?: number): GenerationFacts {
  return { ...DONE, finished: undefined, failure: new EngineError(reason, "words of the engine"), firstDeltaMs };
}

function exported(traceparent: unknown, facts: GenerationFacts = DONE, samplingRatio = 0) {
  const exporter = new InMemorySpanExporter();
  const processor = new SimpleSpanProcessor({ exporter });
  const resource = resourceFromAttributes({ "service.name": "test" });
  new GenerationTracing({ processor, resource, samplingRatio }).generation(traceparent, facts, END_MS);
  return exporter.getFinishedSpans();
}

const sampled = `00-${TRACE}-${PARENT}-01`;
const unsampled = `00-${TRACE}-${PARENT}-00`;

test("a generation is a server span below its caller's, with times and counts", () => {
  const [span] = exported(sampled);
  expect(span).toMatchObject({ name: "svc.inference.v1.InferenceService/Generate", kind: 1, status: { code: 0 } });
  expect(span?.spanContext().traceId).toBe(TRACE);
  expect(span?.parentSpanContext).toMatchObject({ spanId: PARENT, isRemote: true });
  expect([span?.startTime, span?.endTime]).toEqual([
    [1_700_000_000, 0],
    [1_700_000_001, 0],
  ]);
  expect(span?.events.map(({ name, time }) => [name, time[0] - 1_700_000_000, time[1]])).toEqual([
    ["accepted", 0, 20_000_000],
    ["first_delta", 0, 50_000_000],
    ["finish", 1, 0],
  ]);
  expect(span?.attributes).toEqual({
    "rpc.system.name": "grpc",
    "rpc.method": "svc.inference.v1.InferenceService/Generate",
    "rpc.response.status_code": "OK",
    "gen_ai.request.model": "svc-qwen",
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.usage.cache_read.input_tokens": 8,
    "gen_ai.usage.output_tokens": 7,
    "svc.request_id": "req_1",
  });
});

describe("whether a span is exported", () => {
  test.each([
    ["its caller samples it", sampled, DONE, 0, true],
    ["its caller does not, and it went well", unsampled, DONE, 1, false],
    ["its caller does not, and it was refused", unsampled, failedWith("QUEUE_FULL"), 1, false],
    ["its caller does not, and left", unsampled, failedWith("CANCELLED", 5), 1, false],
    ["its caller does not, and it failed", unsampled, failedWith("ENGINE_ABORTED"), 0, true],
    ["its caller does not, and it was broken off", unsampled, failedWith("DRAINING", 5), 0, true],
    ["there is no caller, and all are sampled", undefined, DONE, 1, true],
    ["there is no caller, and none is sampled", undefined, DONE, 0, false],
    ["the header is invalid, and all are sampled", `00-${"0".repeat(32)}-${PARENT}-00`, DONE, 1, true],
    ["the header is not text", Buffer.from("00"), DONE, 1, true],
  ] as const)("%s", (_, traceparent, facts, ratio, expected) => {
    expect(exported(traceparent, facts, ratio)).toHaveLength(expected ? 1 : 0);
  });
});

test.each([
  ["ENGINE_ERROR", 2, "INTERNAL"],
  ["QUEUE_FULL", 0, "RESOURCE_EXHAUSTED"],
  ["CANCELLED", 0, "CANCELLED"],
] as const)("%s has its reason and status, and no message", (reason, code, grpcStatus) => {
  const [span] = exported(sampled, failedWith(reason));
  expect(span?.status).toEqual({ code });
  expect(span?.attributes).toMatchObject({ "error.type": reason, "rpc.response.status_code": grpcStatus });
  expect(JSON.stringify([span?.attributes, span?.events, span?.status])).not.toContain("words");
});
