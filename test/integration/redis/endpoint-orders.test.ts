import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster/cluster-manager.ts";
import { clustersSchema } from "../../../gateway/upstream/cluster/cluster-settings.ts";
import { EndpointOrders } from "../../../gateway/upstream/endpoint-orders.ts";
import { becomes } from "../../support/becomes.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

const NODE = "engine-1:50051";
const OTHER = "engine-2:50051";
const closing: (() => void)[] = [];
let redis: RedisProcess;
let keyPrefix: string;
let prefixes = 0;

/** A gateway on some host, whose cluster has no endpoints: an order counts for those that join. */
async function gateway() {
  const state = await connectTo(redis, { keyPrefix, commandTimeoutMs: 30_000 });
  const configs = clustersSchema.parse([{ model: "svc-qwen", endpoints: [] }]);
  const clusters = new ClusterManager(configs, systemClock, pino({ enabled: false }));
  const orders = await EndpointOrders.open(clusters, state, systemClock);
  closing.push(() => {
    orders.close();
    clusters.close();
    state.close();
  });
  const [outliers] = clusters.clusters.map((cluster) => cluster.outliers);
  return {
    outliers,
    give: (order: "drain" | "undrain" | "uneject") => orders.give({ order, address: NODE }),
    eject: (forMs: number, address = NODE) => orders.give({ order: "eject", address, forMs }),
    drained: () => [...clusters.drained],
    /** The time until the ordered ejection of an endpoint ends, in milliseconds. */
    ejectedForMs: (address = NODE) => (outliers?.ejectedUntilMs(address) ?? 0) - systemClock.nowMs(),
    ejected: (address = NODE) => outliers?.isEjected(address, systemClock.nowMs()),
  };
}

describe.skipIf(!HAS_REDIS)(`operators' orders at one of several hosts (${NO_REDIS})`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });
  afterAll(() => redis.stop());
  beforeEach(() => {
    prefixes += 1;
    keyPrefix = `orders${prefixes}:`;
  });
  afterEach(() => {
    for (const close of closing.splice(0).reverse()) close();
  });

  test("operators' orders apply at all hosts, and at later ones, until they are withdrawn; those of a newer release do not", async () => {
    await redis.ask("SADD", `${keyPrefix}orders:later`, OTHER);
    const [one, two] = [await gateway(), await gateway()];
    expect(await one.give("drain")).toBe(true);
    expect(one.drained()).toEqual([NODE]);
    await becomes(async () => two.drained().includes(NODE), "the other host drains it");
    const three = await gateway();
    expect(three.drained()).toEqual([NODE]);
    expect(await three.give("undrain")).toBe(true);
    await becomes(async () => one.drained().length + two.drained().length === 0, "all hosts undrain it");
  });

  test("operators' orders at one of several hosts end the ejections by outlier detection of all hosts", async () => {
    const hosts = [await gateway(), await gateway()];
    for (const { outliers } of hosts) {
      outliers?.add(NODE);
      for (let failure = 0; failure < 5; failure += 1) outliers?.report(NODE, "failure", systemClock.nowMs());
    }
    expect(hosts.map(({ ejected }) => ejected())).toEqual([true, true]);
    // A gateway without a subscription receives no orders.
    await becomes(async () => {
      expect(await hosts[0]?.give("uneject")).toBe(true);
      return hosts.every(({ ejected }) => !ejected());
    }, "both ejections end");
  });

  test("operators' orders eject until their end by the store's time, also at later hosts, or until they are withdrawn", async () => {
    const [one, two] = [await gateway(), await gateway()];
    expect(await one.eject(60_000)).toBe(true);
    expect(await one.eject(1_000, OTHER)).toBe(true);
    await becomes(async () => two.ejected() === true, "the other host ejects it");
    const three = await gateway();
    expect(three.ejectedForMs()).toBeGreaterThan(30_000);
    expect(three.ejectedForMs()).toBeLessThanOrEqual(60_000);
    expect(Math.abs(one.ejectedForMs() - three.ejectedForMs())).toBeLessThan(1_000);
    const name = `${keyPrefix}orders:ejected`;
    await becomes(async () => Number(await redis.ask("ZCARD", name)) === 1, "the ended one is removed");
    const isOnlyNode = async () => [one, two, three].every(({ ejected }) => ejected() && !ejected(OTHER));
    await becomes(isOnlyNode, "it ends everywhere, and the other does not");
    expect(await three.give("uneject")).toBe(true);
    await becomes(async () => !one.ejected() && !two.ejected(), "it ends everywhere");
  });

  test("made while the store is unreachable apply here at once, and reach the others when it is back", async () => {
    const [one, two] = [await gateway(), await gateway()];
    await redis.stop("SIGKILL");
    expect(await one.give("drain")).toBe(false);
    expect(await one.give("uneject")).toBe(false);
    expect(await one.eject(60_000)).toBe(false);
    expect([one.drained(), one.ejected(), two.drained(), two.ejected()]).toEqual([[NODE], true, [], false]);
    await redis.startAgain();
    await becomes(async () => two.drained().includes(NODE) && two.ejected() === true, "the other host applies all");
    expect([one.drained(), one.ejected()]).toEqual([[NODE], true]);
  });
});
