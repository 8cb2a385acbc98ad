import { expect, test } from "vitest";
import type { BackendLoad } from "../../../../engine/backend.ts";
import { changedSharply, loadReport } from "../../../../engine/load/load-report.ts";

const RATES = {
  prefillTokensPerSecond: 5_000,
  decodeTokensPerSecond: undefined,
  requestsPerSecond: 2,
  errorsPerSecond: 0.5,
};

const report = (load: Partial<BackendLoad>, draining = false) =>
  loadReport({ load: { slots: 4, busySlots: 0, waiting: 0, ...load }, rates: RATES, draining, readers: 2 });

test("a report contains known values and omits unknown ones", () => {
  expect(report({ busySlots: 1, kvTokensUsed: 10, kvTokensTotal: 40, kvUse: 0.25, queuedUncachedTokens: 7 })).toEqual({
    applicationUtilization: 0.25,
    utilization: { kv_cache: 0.25 },
    namedMetrics: {
      "svc.running": 1,
      "svc.waiting": 0,
      "svc.queued_uncached_tokens": 7,
      "svc.kv_tokens_used": 10,
      "svc.kv_tokens_total": 40,
      "svc.prefill_tokens_per_second": 5_000,
      "svc.load_readers": 2,
    },
    rpsFractional: 2,
    eps: 0.5,
    cpuUtilization: 0,
    memUtilization: 0,
    rps: 0,
    requestCost: {},
  });
  expect(report({}).utilization).toEqual({});
});

test.each([
  ["slots", { busySlots: 3, kvUse: 0.5, waiting: 1 }, 0.75],
  ["KV memory", { busySlots: 1, kvUse: 0.9 }, 0.9],
  ["the queue", { busySlots: 4, waiting: 6 }, 1.5],
  ["nothing, while the model loads", { slots: 0 }, 0],
])("utilization follows the fullest: %s", (_, load, expected) => {
  expect(report(load).applicationUtilization).toBe(expected);
});

test.each([
  ["more than ten points of KV memory", { kvUse: 0.61 }, true],
  ["ten points", { kvUse: 0.6 }, false],
  ["another request waiting", { kvUse: 0.5, waiting: 1 }, true],
  ["another running", { kvUse: 0.5, busySlots: 2 }, false],
  ["more than a second of prefill", { kvUse: 0.5, queuedUncachedTokens: 5_001 }, true],
  ["a second of prefill", { kvUse: 0.5, queuedUncachedTokens: 5_000 }, false],
])("%s: reported at once or not", (_, load, sharp) => {
  expect(changedSharply(report({ kvUse: 0.5 }), report(load))).toBe(sharp);
});

test("draining is reported at once", () => {
  expect(report({}, true).namedMetrics["svc.draining"]).toBe(1);
  expect(changedSharply(report({}), report({}, true))).toBe(true);
});
