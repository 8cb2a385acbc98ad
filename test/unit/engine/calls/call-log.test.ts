import { pino } from "pino";
import { expect, test } from "vitest";
import { workRecorder } from "../../../../engine/calls/call-log.ts";
import { CountPermits } from "../../../../engine/calls/count-tokens-call.ts";
import { EngineMetrics } from "../../../../engine/metrics/engine-metrics.ts";

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
