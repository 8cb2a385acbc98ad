import { expect, onTestFinished, test } from "vitest";
import { clusterStatuses } from "../../../gateway/http/admin/cluster-routes.ts";
import { fastSimulator } from "../../support/engine/simulated-node.ts";
import { startNode } from "../../support/engine/start-node.ts";
import { gatewayOf } from "../../support/gateway/own-services.ts";

const MODELS = ["svc-qwen", "svc-glm53"];

test("a node with two models has the calls of each counted in the model's own cluster", async () => {
  const node = await startNode(fastSimulator({ models: MODELS }), { models: MODELS });
  onTestFinished(() => node.stop());
  const clusters = MODELS.map((model) => ({ model, endpoints: [{ address: node.address }] }));
  const gateway = await gatewayOf([node], { clusters });
  for (const model of ["svc-qwen", "svc-qwen", "svc-glm53"]) {
    const reply = await gateway.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }] });
    expect(reply.status).toBe(200);
    await reply.text();
  }
  const seen = clusterStatuses(gateway.clusters, 0).map(({ model, endpoints: [endpoint] }) => {
    return [model, endpoint?.rqTotal, endpoint?.rqActive, endpoint?.rqError];
  });
  expect(seen).toEqual([
    ["svc-qwen", 2, 0, 0],
    ["svc-glm53", 1, 0, 0],
  ]);
});
