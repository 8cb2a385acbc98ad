import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { type WireCall, WireNode } from "../../support/engine/wire-node.ts";
import { bodyFor } from "../../support/http/answer-check.ts";
import { closedLoop, tallyOf, wronglyEnded } from "../../support/processes/closed-loop.ts";
import { Fleet, healthy, nothingOpen, SHORT, show, size } from "../../support/processes/fleet.ts";

/* Nodes that fail repeatedly. A request that kills its nodes: test/integration/upstream/request-of-death.test.ts. */

const CLIENTS = size(9, 40);

const fleet = new Fleet();

test("H9 and H13 a node that crashed under load and restarts, empty, gets few requests at first", async () => {
  const nodes = await fleet.engines(3, SHORT);
  const [died] = nodes;
  if (!died) throw new Error("three nodes were started");
  const gateway = await fleet.inFrontOf(nodes, {
    lbPolicy: "round_robin",
    outlierDetection: { baseEjectionTimeMs: 1_000 },
  });
  const load = closedLoop(gateway, CLIENTS);
  await becomes(async () => (await died.metric("svc_engine_slots_busy")) > 0, "it works");
  await died.kill();
  await becomes(async () => (await gateway.health(died.address)) !== "healthy", "it is found out");
  await died.startAgain();
  await healthy(gateway, died.address);
  const before = load.ended.length;
  await becomes(async () => load.ended.length > before + 80, "requests flow");
  const [got, all] = [await died.metric("svc_engine_generations_total"), load.ended.length - before];
  const ended = await load.finish(load.ended.length);
  show("a node started again", { clients: CLIENTS, ...tallyOf(ended), got, all });
  expect(got).toBeLessThan(all / 5);
  expect(wronglyEnded(ended)).toEqual([]);
  await nothingOpen(gateway, nodes);
});

test("H11 of four nodes that all fail two are ejected at most, and the others are still asked", async () => {
  const play = (call: WireCall) => call.end(13);
  const nodes = await Promise.all([1, 2, 3, 4].map(() => WireNode.start({ models: ["svc-qwen"], play })));
  for (const node of nodes) fleet.onEnd(() => node.stop());
  const gateway = await fleet.inFrontOf(nodes, {
    lbPolicy: "round_robin",
    outlierDetection: {
      consecutiveGatewayFailure: 2,
      baseEjectionTimeMs: 60_000,
    },
  });
  const asked = () => nodes.reduce((sum, { calls }) => sum + calls.length, 0);
  const ask = async () => (await gateway.post("/v1/messages", bodyFor("/v1/messages", "hi"))).status;
  for (let request = 0; request < 12; request += 1) expect(await ask()).toBe(529);
  const flags = await Promise.all(nodes.map(({ address }) => gateway.health(address)));
  expect(flags.filter((flag) => flag === "/failed_outlier_check")).toHaveLength(2);
  const before = asked();
  expect(await ask()).toBe(529);
  expect(asked()).toBeGreaterThan(before);
  expect(await gateway.stat("svc_cluster_outlier_ejections_total", 'enforced="false"')).toBeGreaterThan(0);
});
