import { expect, test } from "vitest";
import { LastReport } from "../../../../../gateway/upstream/endpoint/load-reports.ts";
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
      "svc.decode_tokens_per_second": 0,
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
    decodeTokensPerSecond: undefined,
    readers: 3,
  });
});

test("a node that reports per model is read per model", () => {
  const report = reported({ namedMetrics: { "svc.running/svc-qwen": 1, "svc.running/svc-glm53": 4 } });
  const running = ["svc-qwen", "svc-glm53", "svc-kimik3"].map((model) => report.load(model, 0).running);
  expect(running).toEqual([1, 4, 0]);
});

test("the eviction time moves only with the reported retention, or after a restart of the node", () => {
  const report = new LastReport();
  const evictedBefore = (seconds: number, atMs: number) => {
    report.set(OrcaLoadReport.fromPartial({ namedMetrics: { "svc.observed_retention_seconds": seconds } }), atMs);
    return report.load("m", atMs).evictedBeforeMs;
  };
  const seen = [evictedBefore(0, 0), evictedBefore(60, 100_000), evictedBefore(60, 900_000)];
  expect([...seen, evictedBefore(70, 900_000)]).toEqual([undefined, 40_000, 40_000, 830_000]);
  report.clear();
  expect(evictedBefore(70, 2_000_000)).toBe(1_930_000);
  expect(evictedBefore(0, 2_000_000)).toBeUndefined();
});

test.each<[string, Fields, number]>([
  ["computed", { namedMetrics: { "svc.kv_tokens_used": 30, "svc.kv_tokens_total": 120 } }, 0.25],
  ["0 without a total", { namedMetrics: { "svc.kv_tokens_used": 30 } }, 0],
  ["at most 1", { utilization: { kv_cache: 1.2 } }, 1],
])("the KV use is %s", (_, fields, kvUse) => {
  expect(reported(fields).load("m", 0).kvUse).toBe(kvUse);
});

test.each([Number.NaN, Number.POSITIVE_INFINITY, -1])("the number %d reaches no policy", (wrong) => {
  const report = reported({
    namedMetrics: { "svc.running": wrong, "svc.prefill_tokens_per_second": wrong },
    utilization: { kv_cache: wrong },
  });
  expect(report.load("m", 0)).toMatchObject({ ...NOTHING, prefillTokensPerSecond: undefined });
});

test("a report expires after ten seconds, and when the connection is lost", () => {
  const report = reported({ namedMetrics: { "svc.running": 3, "svc.draining": 1 } }, 1_000);
  const seen = (nowMs: number) => [report.load("m", nowMs).running, report.isDraining(nowMs)];
  expect([seen(10_999), seen(11_000)]).toEqual([
    [3, true],
    [0, false],
  ]);
  report.clear();
  expect(report.load("m", 1_000)).toMatchObject(NOTHING);
});
