import { pino } from "pino";
import { expect, test } from "vitest";
import { workRecorder } from "../../../../engine/calls/call-log.ts";
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
