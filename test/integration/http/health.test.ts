import { expect, test } from "vitest";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { startNode } from "../../support/engine/start-node.ts";
import { startGateway } from "../../support/gateway/start-gateway.ts";

test("GET /health without a key is 200 once a model can be served, without a body and a line in the log", async () => {
  const node = await startNode(fastSimulator({ nodeId: "n1" }));
  const gateway = await startGateway([node.address], {
    clusters: [{ model: "svc-qwen", endpoints: [{ address: node.address }] }],
  });
  const response = await fetch(`${gateway.baseUrl}/health`);
  expect([response.status, await response.text()]).toEqual([200, ""]);
  expect((await fetch(`${gateway.baseUrl}/health`, { method: "HEAD" })).status).toBe(200);
  expect((await fetch(`${gateway.baseUrl}/health`, { method: "POST" })).status).toBe(405);
  expect(gateway.log.filter((line) => line.includes('"request_id"') && !line.includes("405"))).toEqual([]);
  await gateway.stop();
  await node.stop();
});

test("it is 503 while no node is there", async () => {
  const gateway = await startGateway([], {
    clusters: [{ model: "svc-qwen", endpoints: [{ address: "127.0.0.1:1" }] }],
  });
  expect((await fetch(`${gateway.baseUrl}/health`)).status).toBe(503);
  await gateway.stop();
});
