import { pino } from "pino";
import { expect, test } from "vitest";
import { ClusterManager } from "../../../../../gateway/upstream/cluster-manager.ts";
import { clustersSchema } from "../../../../../gateway/upstream/cluster-settings.ts";
import { EndpointOrders } from "../../../../../gateway/upstream/endpoint-orders.ts";
import { OrderBook } from "../../../../../gateway/upstream/orders/order-board.ts";
import {
  answerOrders,
  type OrderReply,
  type OrderRequest,
  WorkerOrders,
} from "../../../../../gateway/upstream/orders/worker-orders.ts";
import { ChannelPair } from "../../../../support/channel-pair.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

/* Workers and the process that started them, at the ends of channels. */

class Fleet {
  readonly clock = new VirtualClock();
  readonly book = new OrderBook(this.clock);

  /** Starts a worker, whose clusters have no endpoints: an order counts for those that come. */
  async worker() {
    const channel = new ChannelPair<OrderRequest, OrderReply>();
    const end = answerOrders(this.book, channel.host);
    const log = pino({ enabled: false });
    const configs = clustersSchema.parse([{ model: "svc-qwen", endpoints: [] }]);
    const clusters = new ClusterManager(configs, this.clock, log);
    const opening = EndpointOrders.open(clusters, new WorkerOrders(channel.worker, this.clock), this.clock);
    const ejected = () => clusters.clusters.some(({ outliers }) => outliers.isEjected(NODE, this.clock.nowMs()));
    return { channel, end, orders: await opening, drained: () => [...clusters.drained], ejected };
  }
}

const NODE = "engine-1:50051";

test("what one worker is ordered holds for all before it is answered, and for those that come later", async () => {
  const fleet = new Fleet();
  const [one, two] = [await fleet.worker(), await fleet.worker()];
  expect(await one.orders.give({ order: "drain", address: NODE })).toBe(true);
  const three = await fleet.worker();
  expect([one, two, three].map(({ drained }) => drained())).toEqual([[NODE], [NODE], [NODE]]);
  expect(await three.orders.give({ order: "undrain", address: NODE })).toBe(true);
  expect([one, two, three].map(({ drained }) => drained())).toEqual([[], [], []]);
});

test("a worker that has ended is told nothing more", async () => {
  const fleet = new Fleet();
  const [one, two] = [await fleet.worker(), await fleet.worker()];
  two.end();
  await one.orders.give({ order: "drain", address: NODE });
  expect(two.drained()).toEqual([]);
});

test("while the process that keeps orders is stuck they hold here alone, and everywhere once it goes on", async () => {
  const fleet = new Fleet();
  const [one, two] = [await fleet.worker(), await fleet.worker()];
  one.channel.stick();
  const given = one.orders.give({ order: "drain", address: NODE });
  await fleet.clock.advance(1_000);
  expect(await given).toBe(false);
  expect([one.drained(), two.drained()]).toEqual([[NODE], []]);
  await one.channel.comeBack();
  expect([one.drained(), two.drained()]).toEqual([[NODE], [NODE]]);
});

test("an ejection by order holds for all, also for those that come later, until its end or until it is taken back", async () => {
  const fleet = new Fleet();
  const [one, two] = [await fleet.worker(), await fleet.worker()];
  expect(await one.orders.give({ order: "eject", address: NODE, forMs: 60_000 })).toBe(true);
  await fleet.clock.advance(59_999);
  const three = await fleet.worker();
  expect([one, two, three].map(({ ejected }) => ejected())).toEqual([true, true, true]);
  await fleet.clock.advance(1);
  expect([one, two, three].map(({ ejected }) => ejected())).toEqual([false, false, false]);
  await two.orders.give({ order: "eject", address: NODE, forMs: 60_000 });
  await three.orders.give({ order: "uneject", address: NODE });
  expect([one, two, three].map(({ ejected }) => ejected())).toEqual([false, false, false]);
});

test("an ejection that is ordered while the process that keeps orders is stuck holds here alone at first", async () => {
  const fleet = new Fleet();
  const [one, two] = [await fleet.worker(), await fleet.worker()];
  one.channel.stick();
  const given = one.orders.give({ order: "eject", address: NODE, forMs: 60_000 });
  await fleet.clock.advance(1_000);
  expect(await given).toBe(false);
  expect([one.ejected(), two.ejected()]).toEqual([true, false]);
  await one.channel.comeBack();
  expect([one.ejected(), two.ejected()]).toEqual([true, true]);
});

test("an order to end an ejection reaches every worker", async () => {
  const clock = new VirtualClock();
  const book = new OrderBook(clock);
  const unejected: string[] = [];
  const boards = [0, 1].map(() => {
    const channel = new ChannelPair<OrderRequest, OrderReply>();
    answerOrders(book, channel.host);
    return new WorkerOrders(channel.worker, clock);
  });
  for (const [at, board] of boards.entries()) {
    await board.follow({ standing: () => {}, unejected: (address) => unejected.push(`${at} ${address}`) });
  }
  expect(await boards[0]?.give({ order: "uneject", address: NODE })).toBe(true);
  expect(unejected).toEqual([`0 ${NODE}`, `1 ${NODE}`]);
});
