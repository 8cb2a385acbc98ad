import { expect, onTestFinished, test } from "vitest";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { HealthNode } from "../../support/engine/health-node.ts";
import { inFrontOf } from "../../support/gateway/upstream/routed.ts";
import { until } from "../../support/until.ts";

test("the age of the outage counts from its beginning, and restarts when an endpoint announces itself", async () => {
  const node = await HealthNode.start({ models: ["svc-qwen"] });
  onTestFinished(() => node.stop());
  const { rig } = await inFrontOf([node]);
  const outageMs = () => rig.router.traffic[0]?.admission.outageMs();
  const becomes = async (serving: Serving, healthy: number) => {
    // The second report counts as the second check.
    for (let report = 0; report < 2; report += 1) node.setStatus(serving);
    await until(() => rig.cluster.healthyEndpoints.length === healthy, `${healthy} healthy`);
  };
  expect(outageMs()).toBeUndefined();
  await rig.clock.advance(10_000);
  await becomes(Serving.NOT_SERVING, 0);
  expect(outageMs()).toBe(0);
  await rig.clock.advance(40_000);
  expect(outageMs()).toBe(40_000);
  // Like a node that is gone, and returns without serving yet.
  node.breakWatches();
  await until(() => outageMs() === 0, "the node announces itself");
  await rig.clock.advance(3_000);
  expect(outageMs()).toBe(3_000);
  await becomes(Serving.SERVING, 1);
  expect(outageMs()).toBeUndefined();
});
