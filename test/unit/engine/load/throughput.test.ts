import { expect, test } from "vitest";
import { EngineError } from "../../../../engine/errors.ts";
import { Throughput } from "../../../../engine/load/throughput.ts";
import { type Finished, FinishReason } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";

function finished(
  uncached: number,
  prefillSeconds: number,
  output: number,
  decodeSeconds: number,
  queueSeconds: number | "unknown" = 0,
): Finished {
  const span = (seconds: number) => ({
    seconds: Math.floor(seconds),
    nanos: Math.round((seconds - Math.floor(seconds)) * 1e9),
  });
  const usage = { cachedInputTokens: 50, cacheWriteTokens: 0, outputTokens: output, reasoningTokens: 0 };
  return {
    reason: FinishReason.STOP,
    usage: { ...usage, inputTokens: 50 + uncached },
    timings: {
      queue: queueSeconds === "unknown" ? undefined : span(queueSeconds),
      prefill: span(prefillSeconds),
      decode: span(decodeSeconds),
    },
  };
}

test("the decode rate is a moving average in which the newest generation weighs a fifth", () => {
  const throughput = new Throughput(() => 0);
  expect(throughput.rates()).toMatchObject({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined });
  throughput.add(finished(1_000, 2, 100, 2), undefined);
  expect(throughput.rates()).toMatchObject({ decodeTokensPerSecond: 50 });
  throughput.add(finished(1_000, 1, 100, 1), undefined);
  expect(throughput.rates()).toMatchObject({ decodeTokensPerSecond: 60 });
});

/** The time of a prefill at 12,000 tokens a second, with 60 ms beside it. */
const took = (tokens: number) => tokens / 12_000 + 0.06;

test("the prefill rate is that of long prompts which did not wait: cached and queued turns change nothing", () => {
  const throughput = new Throughput(() => 0);
  throughput.add(finished(100_000, took(100_000), 100, 2), undefined);
  const alone = throughput.rates().prefillTokensPerSecond;
  expect(alone).toBeGreaterThan(11_900);
  expect(alone).toBeLessThan(12_000);
  for (let turn = 0; turn < 10; turn += 1) {
    throughput.add(finished(500, took(500), 100, 2), undefined);
    throughput.add(finished(500, 3 + took(500), 100, 2, "unknown"), undefined);
    throughput.add(finished(20_000, took(20_000), 100, 2, 3), undefined);
    throughput.add(finished(20_000, 3 + took(20_000), 100, 2, "unknown"), undefined);
  }
  expect(throughput.rates().prefillTokensPerSecond).toBe(alone);
  // A prompt counts by its tokens: the sum of tokens over the sum of seconds.
  throughput.add(finished(5_000, 10, 100, 2), undefined);
  expect(throughput.rates().prefillTokensPerSecond).toBeCloseTo(95_000 / (0.9 * took(100_000) + 10));
});

test("tokens of another node do not count for the rates", () => {
  const throughput = new Throughput(() => 0);
  throughput.add(finished(0, 0, 100, 2), undefined, 80);
  expect(throughput.rates().decodeTokensPerSecond).toBe(10);
});

test("generations without timings or work, and failed ones, do not change the rates", () => {
  const throughput = new Throughput(() => 0);
  throughput.add(finished(0, 1, 0, 1), undefined);
  throughput.add(finished(10, 0, 10, 0), undefined);
  throughput.add({ ...finished(10, 1, 10, 1), timings: undefined }, undefined);
  throughput.add(undefined, new EngineError("ENGINE_ERROR", "broken"));
  expect(throughput.rates()).toMatchObject({ prefillTokensPerSecond: undefined, decodeTokensPerSecond: undefined });
});

test("the next end is estimated from durations and running generations, within bounds", () => {
  let now = 0;
  const throughput = new Throughput(() => now);
  throughput.add(undefined, new EngineError("QUEUE_FULL", "full"));
  expect(throughput.nextEndMs(4)).toBe(1_000);
  throughput.add(finished(1, 4, 1, 6), undefined);
  // However long ago that was.
  now += 3_600_000;
  expect([1, 4, 1_000].map((running) => throughput.nextEndMs(running))).toEqual([10_000, 2_500, 100]);
  throughput.add(finished(1, 10, 1, 500), undefined);
  expect(throughput.nextEndMs(1)).toBe(30_000);
  expect(throughput.nextEndMs(0)).toBe(1_000);
});

test("requests and errors per second decay", () => {
  let now = 0;
  const throughput = new Throughput(() => now);
  for (let request = 0; request < 1_000; request += 1) {
    now += 100;
    throughput.add(undefined, new EngineError(request % 2 === 0 ? "ENGINE_DOWN" : "CANCELLED", "over"));
  }
  expect(throughput.rates().requestsPerSecond).toBeCloseTo(10, 0);
  expect(throughput.rates().errorsPerSecond).toBeCloseTo(5, 0);
  now += 120_000;
  expect(throughput.rates().requestsPerSecond).toBeLessThan(0.001);
});
