import { pino } from "pino";
import { expect, test } from "vitest";
import { ClusterManager } from "../../../../gateway/upstream/cluster-manager.ts";
import { clustersSchema } from "../../../../gateway/upstream/cluster-settings.ts";
import { EndpointOrders } from "../../../../gateway/upstream/endpoint-orders.ts";
import type { OrderBoard, OrderFollower } from "../../../../gateway/upstream/orders/order-board.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const NODE = "engine-1:50051";

/** Opens the orders of a gateway whose clusters have no endpoints: an order counts for those that join. */
async function setUp(board?: OrderBoard) {
  const clock = new VirtualClock();
  const configs = clustersSchema.parse([{ model: "svc-qwen", endpoints: [] }]);
  const clusters = new ClusterManager(configs, clock, pino({ enabled: false }));
  const orders = await EndpointOrders.open(clusters, board, clock);
  const ejected = () => clusters.clusters.some(({ outliers }) => outliers.isEjected(NODE, clock.nowMs()));
  return { clock, orders, drained: () => [...clusters.drained], ejected };
}

test("without a store, a drain holds in this process until it is revoked", async () => {
  const { orders, drained } = await setUp();
  expect(await orders.give({ order: "drain", address: NODE })).toBe(true);
  expect(drained()).toEqual([NODE]);
  expect(await orders.give({ order: "undrain", address: NODE })).toBe(true);
  expect(drained()).toEqual([]);
});

test("without a store, an ejection holds until it ends or is revoked", async () => {
  const { clock, orders, ejected } = await setUp();
  const eject = () => orders.give({ order: "eject", address: NODE, forMs: 60_000 });
  expect(await eject()).toBe(true);
  await clock.advance(59_999);
  expect(ejected()).toBe(true);
  await clock.advance(1);
  expect(ejected()).toBe(false);
  await eject();
  expect(ejected()).toBe(true);
  expect(await orders.give({ order: "uneject", address: NODE })).toBe(true);
  expect(ejected()).toBe(false);
});

test("while the store is unavailable, orders apply here; later the standing orders replace them", async () => {
  let follower: OrderFollower | undefined;
  const board: OrderBoard = {
    give: async () => false,
    follow: async (one) => {
      follower = one;
      return () => {};
    },
  };
  const { orders, drained, ejected } = await setUp(board);
  expect(await orders.give({ order: "drain", address: NODE })).toBe(false);
  expect(await orders.give({ order: "eject", address: NODE, forMs: 60_000 })).toBe(false);
  expect([drained(), ejected()]).toEqual([[NODE], true]);
  follower?.standing({ drained: [], ejected: [] });
  expect([drained(), ejected()]).toEqual([[], false]);
  follower?.standing({ drained: [NODE], ejected: [{ address: NODE, endsAtMs: 5, leftMs: 1_000 }] });
  expect([drained(), ejected()]).toEqual([[NODE], true]);
  follower?.unejected(NODE);
  follower?.standing({ drained: [NODE], ejected: [] });
  expect(ejected()).toBe(false);
});
