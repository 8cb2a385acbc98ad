import { expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { Endpoint } from "../../../gateway/upstream/endpoint/endpoint.ts";
import { LoadReports } from "../../../gateway/upstream/endpoint/load-reports.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { fixedSentence } from "../../support/engine/scripted-backend.ts";
import { startEngine } from "../../support/engine/start-engine.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const random = () => 0.5;
const one = () => 1;

test("reports start at once, expire when the node is lost, and resume when it is back", async () => {
  const engine = await startEngine(fixedSentence);
  const endpoint = new Endpoint(engine.address);
  const reports = new LoadReports({ endpoint, clock: systemClock, random, nodes: one });
  const fresh = () => endpoint.report.isFresh(systemClock.nowMs());
  await until(fresh, "the first report");
  await engine.stop();
  await until(() => !fresh(), "the loss");
  const back = await startEngine(fixedSentence, { port: Number(engine.address.split(":")[1]) });
  await until(fresh, "a new report");
  reports.close();
  endpoint.close();
  await back.stop();
});

test("a node without load reports is not asked repeatedly", async () => {
  const node = await HealthNode.start({ models: ["svc-qwen"] });
  const endpoint = new Endpoint(node.address);
  const clock = new VirtualClock();
  const reports = new LoadReports({ endpoint, clock, random, nodes: one });
  await until(() => {
    void clock.advance(1_000);
    return node.loadIntervalsMs.length === 2;
  }, "the second question");
  expect(clock.nowMs()).toBeGreaterThanOrEqual(60_000);
  reports.close();
  endpoint.close();
  node.stop();
});

test("with more nodes, each reports small changes less often", async () => {
  const node = await HealthNode.start({ models: ["svc-qwen"] });
  for (const nodes of [1, 250, 1_000, 100_000]) {
    const endpoint = new Endpoint(node.address);
    const asked = node.loadIntervalsMs.length;
    const reports = new LoadReports({ endpoint, clock: new VirtualClock(), random, nodes: () => nodes });
    await until(() => node.loadIntervalsMs.length > asked, "the question");
    reports.close();
    endpoint.close();
  }
  expect(node.loadIntervalsMs).toEqual([500, 500, 2_000, 5_000]);
  node.stop();
});
