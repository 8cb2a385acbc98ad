import { pino } from "pino";
import { expect, test } from "vitest";
import { ClusterManager } from "../../../../gateway/upstream/cluster/cluster-manager.ts";
import { clustersSchema } from "../../../../gateway/upstream/cluster/cluster-settings.ts";
import { EndpointOrders } from "../../../../gateway/upstream/endpoint-orders.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/* Orders in a shared store are tested in test/integration/redis. */

const NODE = "engine-1:50051";

test("without a store, a drain lasts in this process until it is revoked, an ejection also until its end", async () => {
  const clock = new VirtualClock();
  // The clusters have no endpoints: an order counts for those that join.
  const configs = clustersSchema.parse([{ model: "svc-qwen", endpoints: [] }]);
  const clusters = new ClusterManager(configs, clock, pino({ enabled: false }));
  const orders = await EndpointOrders.open(clusters, undefined, clock);
  const ejected = () => clusters.clusters.some(({ outliers }) => outliers.isEjected(NODE, clock.nowMs()));
  const give = (order: "drain" | "undrain" | "uneject") => orders.give({ order, address: NODE });
  const eject = () => orders.give({ order: "eject", address: NODE, forMs: 60_000 });

  expect(await give("drain")).toBe(true);
  expect([...clusters.drained]).toEqual([NODE]);
  expect(await give("undrain")).toBe(true);
  expect([...clusters.drained]).toEqual([]);

  expect(await eject()).toBe(true);
  await clock.advance(59_999);
  expect(ejected()).toBe(true);
  await clock.advance(1);
  expect(ejected()).toBe(false);
  await eject();
  expect(ejected()).toBe(true);
  expect(await give("uneject")).toBe(true);
  expect(ejected()).toBe(false);
});
