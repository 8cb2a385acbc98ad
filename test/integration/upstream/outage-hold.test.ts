import { expect, test } from "vitest";
import { HealthCheckResponse_ServingStatus as Serving } from "../../../proto/gen/grpc/health/v1/health.ts";
import { admitted, admitting, fill } from "../../support/gateway/upstream/admission-rig.ts";
import { until } from "../../support/until.ts";

/** Admission in front of one node that is healthy at once when it serves, with functions to stop and start it. */
async function withOutage() {
  const rig = await admitting({ healthChecks: { healthyThreshold: 1 } });
  const becomes = async (serving: Serving, healthy: number) => {
    rig.nodes[0]?.tell(serving);
    await until(() => rig.cluster.healthyEndpoints.length === healthy, `${healthy} healthy`);
    await rig.clock.advance(0);
  };
  const lose = () => becomes(Serving.NOT_SERVING, 0);
  const comeBack = () => becomes(Serving.SERVING, 1);
  return { ...rig, lose, comeBack };
}

test("waiting requests are held when the node stops serving, and served when it serves again", async () => {
  const { ask, lose, comeBack, nodes, admission } = await withOutage();
  const running = await fill(() => ask(), 4);
  const waiting = ask("a", { mayHold: true });
  await lose();
  for (const slot of running) slot.release();
  expect(admission.held.requests).toBe(1);
  expect(await ask("b").result).toBe("none_available");
  await comeBack();
  expect((await admitted(waiting)).member.endpoint.address).toBe(nodes[0]?.address);
});

test("the age of the outage counts from its beginning, and restarts when an endpoint announces itself", async () => {
  const { lose, comeBack, nodes, admission, clock } = await withOutage();
  expect(admission.outageMs()).toBeUndefined();
  await clock.advance(10_000);
  await lose();
  expect(admission.outageMs()).toBe(0);
  await clock.advance(40_000);
  expect(admission.outageMs()).toBe(40_000);
  // Like a node that is gone, and returns without serving yet.
  nodes[0]?.breakWatches();
  await until(() => admission.outageMs() === 0, "the node announces itself");
  await clock.advance(3_000);
  expect(admission.outageMs()).toBe(3_000);
  await comeBack();
  expect(admission.outageMs()).toBeUndefined();
});
