import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { ClusterManager } from "../../../gateway/upstream/cluster-manager.ts";
import { EndpointOrders } from "../../../gateway/upstream/endpoint-orders.ts";
import { RedisUsage } from "../../../gateway/usage/redis-usage.ts";
import { NO_USE } from "../../../gateway/usage/usage-store.ts";
import { connectTo, openLimits } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

/* Additions of a newer release to entries of the store are ignored (deploy/docs/upgrade.md). */

let redis: RedisProcess;
const closing: (() => unknown)[] = [];

async function connect() {
  const state = await connectTo(redis, { commandTimeoutMs: 5_000 });
  closing.push(() => state.close());
  return state;
}

describe.skipIf(!HAS_REDIS)(`a newer release beside this one${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(() => redis?.end());

  test("adds to the counts of a key's limits", async () => {
    const limits = await openLimits(redis);
    closing.push(() => limits.close());
    const rule = { kind: "bucket", perMinute: 1e-5, capacity: 100 } as const;
    const remaining = async (cost: number) =>
      Math.round((await limits.store.charge("k", [{ name: "otpm", rule, cost }])).readings[0]?.remaining ?? -1);
    expect(await remaining(10)).toBe(90);
    await redis.ask("HSET", "svc:limits:{k}", "later|otpm", "one two three");
    expect(await remaining(10)).toBe(80);
    expect(await redis.ask("HGET", "svc:limits:{k}", "later|otpm")).toBe("one two three");
    expect(limits.said).toEqual([]);
  });

  test("adds to the use of a key", async () => {
    const usage = new RedisUsage(await connect(), systemClock);
    const day = Math.floor(systemClock.wallMs() / 86_400_000);
    const entry = { keyId: "a", day, model: "svc-qwen", counts: { ...NO_USE, requests: 1 } };
    await usage.add({ number: 1, entries: [entry] });
    await redis.ask("HSET", "svc:usage:{a}", `u|${day}|99|svc-qwen`, "7", `later|${day}`, "text");
    expect(await usage.add({ number: 2, entries: [entry] })).toBe(true);
    expect((await usage.read("a"))?.entries).toEqual([{ ...entry, counts: { ...NO_USE, requests: 2 } }]);
  });

  test("gives orders that this one does not have", async () => {
    const state = await connect();
    await redis.ask("SADD", "svc:orders:later", "engine-1:50051");
    await redis.ask("SADD", "svc:orders:drained", "engine-2:50051");
    const clusters = new ClusterManager([], systemClock, pino({ enabled: false }));
    const orders = await EndpointOrders.open(clusters, state, systemClock);
    closing.push(() => orders.close());
    expect([...clusters.drained]).toEqual(["engine-2:50051"]);
  });
});
