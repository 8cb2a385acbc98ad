import { pino } from "pino";
import { expect, test } from "vitest";
import { type GenerationFacts, measureGeneration, workRecorder } from "../../../../engine/calls/call-log.ts";
import { CountPermits } from "../../../../engine/calls/count-tokens-call.ts";
import { EngineError } from "../../../../engine/errors.ts";
import { EngineMetrics } from "../../../../engine/metrics/engine-metrics.ts";
import { FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";

const whole: GenerationFacts = {
  ...{ requestId: "req_1", model: "m", failure: undefined, continuedTokens: 30 },
  finished: {
    reason: FinishReason.STOP,
    usage: { inputTokens: 12, cachedInputTokens: 8, cacheWriteTokens: 0, outputTokens: 40, reasoningTokens: 25 },
    timings: {
      queue: { seconds: 1, nanos: 500_000_000 },
      prefill: { seconds: 2, nanos: 0 },
      decode: { seconds: 4, nanos: 0 },
    },
  },
  ...{ firstDeltaMs: 3_500, checked: { mismatches: [], unchecked: 0 }, totalMs: 8_000, cancelMs: undefined },
};

/** Returns the samples that generations leave on the metrics page, without the buckets. */
async function samplesOf(...generations: readonly GenerationFacts[]): Promise<readonly string[]> {
  const metrics = new EngineMetrics();
  for (const facts of generations) measureGeneration(metrics, facts);
  const lines = (await metrics.registry.metrics()).split("\n");
  return lines.filter((line) => /^svc_engine_\S+ (?!0$)/.test(line) && !line.includes("_bucket{"));
}

test("a generation that waited, read and wrote is measured in seconds, and by the tokens of its own call", async () => {
  expect(await samplesOf(whole)).toEqual([
    'svc_engine_generations_total{model="m",reason="ok"} 1',
    'svc_engine_tokens_total{model="m",type="input"} 12',
    'svc_engine_tokens_total{model="m",type="cached"} 8',
    'svc_engine_tokens_total{model="m",type="output"} 10',
    'svc_engine_tokens_total{model="m",type="reasoning"} 10',
    'svc_engine_time_to_first_delta_seconds_sum{model="m"} 3.5',
    'svc_engine_time_to_first_delta_seconds_count{model="m"} 1',
    'svc_engine_time_per_output_token_seconds_sum{model="m"} 0.4',
    'svc_engine_time_per_output_token_seconds_count{model="m"} 1',
    'svc_engine_queue_wait_seconds_sum{model="m"} 1.5',
    'svc_engine_queue_wait_seconds_count{model="m"} 1',
  ]);
});

test("a generation without a first delta, timings or usage adds nothing to their metrics", async () => {
  const failure = new EngineError("DEADLINE", "late");
  const checked = { mismatches: [{ part: "answer" as const, strict: true }], unchecked: 2 };
  const cut = { ...whole, failure, finished: undefined, firstDeltaMs: undefined, checked, cancelMs: 250 };
  expect(await samplesOf(cut)).toEqual([
    'svc_engine_generations_total{model="m",reason="DEADLINE"} 1',
    'svc_engine_schema_mismatches_total{model="m",part="answer"} 1',
    'svc_engine_schema_unchecked_total{model="m"} 2',
    "svc_engine_cancel_latency_seconds_sum 0.25",
    "svc_engine_cancel_latency_seconds_count 1",
  ]);
});

test("jobs are counted by outcome, and a fault is logged once per code location", async () => {
  const lines: string[] = [];
  const metrics = new EngineMetrics();
  const record = workRecorder(metrics, pino({}, { write: (line) => lines.push(line) }));
  const fault = { error: "TypeError", at: ["at a.ts:1"] };
  record({ kind: "grammar", outcome: "whole" });
  for (const at of [["at a.ts:1"], ["at a.ts:1"], ["at b.ts:2"]])
    record({ kind: "grammar", outcome: "failed", fault: { ...fault, at } });
  const { values } = await metrics.callerWork.get();
  expect(values.map(({ labels, value }) => [labels.outcome, value])).toEqual([
    ["whole", 1],
    ["failed", 3],
  ]);
  expect(lines.map((line) => JSON.parse(line).at)).toEqual([["at a.ts:1"], ["at b.ts:2"]]);
});

test("a tenant has its own permits, and reuses released ones", () => {
  const places = new CountPermits();
  const taken: (() => void)[] = [];
  const full = (tenant: string) => {
    try {
      taken.push(places.take(tenant));
      return false;
    } catch (error) {
      expect(error).toMatchObject({ reason: "QUEUE_FULL" });
      return true;
    }
  };
  while (!full("flood")) expect(taken.length).toBeLessThan(100);
  expect(full("other")).toBe(false);
  taken.shift()?.();
  expect([full("flood"), full("flood")]).toEqual([false, true]);
});

test("the permits of all tenants together are limited", () => {
  const places = new CountPermits();
  let taken = 0;
  const takeAll = () => {
    for (; taken < 10_000; taken += 1) places.take(`t${taken}`);
  };
  expect(takeAll).toThrow(expect.objectContaining({ reason: "QUEUE_FULL" }));
  expect(taken).toBeGreaterThanOrEqual(100);
});
