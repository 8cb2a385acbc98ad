import { expect, test } from "vitest";
import { LastReport } from "../../../../../gateway/upstream/endpoint/endpoint-load.ts";
import { OrcaLoadReport } from "../../../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";

type Fields = { namedMetrics?: Record<string, number>; utilization?: Record<string, number> };

function reported(fields: Fields, atMs = 0): LastReport {
  const report = new LastReport();
  report.set(OrcaLoadReport.fromPartial(fields), atMs);
  return report;
}

const NOTHING = { running: 0, waiting: 0, kvUse: 0, queuedUncachedTokens: 0 };

test("a report is read by its names", () => {
  const report = reported({
    namedMetrics: {
      "svc.running": 3,
      "svc.waiting": 2,
      "svc.queued_uncached_tokens": 5_000,
      "svc.prefill_tokens_per_second": 8_000,
      "svc.decode_tokens_per_second": 60,
      "svc.load_readers": 3,
    },
    utilization: { kv_cache: 0.25 },
  });
  expect(report.load("svc-qwen", 0)).toEqual({
    running: 3,
    waiting: 2,
    kvUse: 0.25,
    queuedUncachedTokens: 5_000,
    prefillTokensPerSecond: 8_000,
    decodeTokensPerSecond: 60,
    readers: 3,
  });
});

test("a report by model is read per model, and as a whole for its mean", () => {
  const report = reported({ namedMetrics: { "svc.running/svc-qwen": 1, "svc.running/svc-glm53": 4 } });
  expect(report.load("svc-qwen", 0).running).toBe(1);
  expect(report.load("svc-glm53", 0).running).toBe(4);
  expect(report.load("svc-kimik3", 0).running).toBe(0);
  expect(report.meanRequests).toBe(5);
});

test("evictions do not age while the report repeats, except for another node", () => {
  const report = new LastReport();
  const evictedBefore = (seconds: number, atMs: number) => {
    report.set(OrcaLoadReport.fromPartial({ namedMetrics: { "svc.observed_retention_seconds": seconds } }), atMs);
    return report.load("m", atMs).evictedBeforeMs;
  };
  expect([evictedBefore(0, 0), evictedBefore(60, 100_000), evictedBefore(60, 900_000)]).toEqual([
    undefined,
    40_000,
    40_000,
  ]);
  expect(evictedBefore(70, 900_000)).toBe(830_000);
  report.clear();
  expect(evictedBefore(70, 2_000_000)).toBe(1_930_000);
});

test("the KV use is computed where it is not reported, and never above 1", () => {
  const tokens = { "svc.kv_tokens_used": 30, "svc.kv_tokens_total": 120 };
  expect(reported({ namedMetrics: tokens }).load("m", 0).kvUse).toBe(0.25);
  expect(reported({ namedMetrics: { "svc.kv_tokens_used": 30 } }).load("m", 0).kvUse).toBe(0);
  expect(reported({ utilization: { kv_cache: 1.2 } }).load("m", 0).kvUse).toBe(1);
});

test.each([Number.NaN, Number.POSITIVE_INFINITY, -1])("the number %d reaches no policy", (wrong) => {
  const report = reported({
    namedMetrics: { "svc.running": wrong, "svc.prefill_tokens_per_second": wrong },
    utilization: { kv_cache: wrong },
  });
  expect(report.load("m", 0)).toMatchObject({ ...NOTHING, prefillTokensPerSecond: undefined });
  expect(report.meanRequests).toBe(0);
});

test("a speed of 0 counts as unreported", () => {
  expect(reported({ namedMetrics: { "svc.prefill_tokens_per_second": 0 } }).load("m", 0).prefillTokensPerSecond).toBe(
    undefined,
  );
});

test("a report expires after ten seconds, and with the connection", () => {
  const report = reported({ namedMetrics: { "svc.running": 3, "svc.draining": 1 } }, 1_000);
  expect(report.load("m", 10_999).running).toBe(3);
  expect(report.isDraining(10_999)).toBe(true);
  expect(report.load("m", 11_000)).toMatchObject(NOTHING);
  expect(report.isDraining(11_000)).toBe(false);
  report.clear();
  expect(report.load("m", 1_000)).toMatchObject(NOTHING);
});

test("the mean follows a changed load slowly", () => {
  const report = reported({ namedMetrics: { "svc.running": 10 } });
  for (let atMs = 500; atMs <= 60_000; atMs += 500)
    report.set(OrcaLoadReport.fromPartial({ namedMetrics: { "svc.running": 0 } }), atMs);
  expect(report.meanRequests).toBeGreaterThan(5);
  expect(report.meanRequests).toBeLessThan(8);
});
