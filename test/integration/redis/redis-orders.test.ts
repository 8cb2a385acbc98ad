import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import type { OrderedEjection } from "../../../gateway/upstream/orders/order-board.ts";
import { RedisOrders } from "../../../gateway/upstream/orders/redis-orders.ts";
import { becomes } from "../../support/becomes.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

const NODE = "engine-1:50051";
const closing: (() => void)[] = [];
let redis: RedisProcess;
let keyPrefix: string;
let prefixes = 0;

/** A gateway on some host, with the orders that it has received. */
async function gateway() {
  const state = await connectTo(redis, { keyPrefix, commandTimeoutMs: 500 });
  const board = new RedisOrders(state, systemClock);
  const told = {
    drained: [] as readonly string[],
    ejected: [] as readonly OrderedEjection[],
    unejected: [] as string[],
  };
  const unfollow = await board.follow({
    standing({ drained, ejected }) {
      told.drained = drained;
      told.ejected = ejected;
    },
    unejected: (address) => told.unejected.push(address),
  });
  closing.push(() => {
    unfollow();
    state.close();
  });
  return { board, told };
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

  test("apply at all hosts, and at later ones, until they are withdrawn", async () => {
    const [one, two] = [await gateway(), await gateway()];
    expect(await one.board.give({ order: "drain", address: NODE })).toBe(true);
    expect(one.told.drained).toEqual([NODE]);
    await becomes(async () => two.told.drained.includes(NODE), "the other host knows");
    const three = await gateway();
    expect(three.told.drained).toEqual([NODE]);
    expect(await three.board.give({ order: "undrain", address: NODE })).toBe(true);
    await becomes(async () => one.told.drained.length + two.told.drained.length === 0, "all know");
  });

  test("apply even if an ejection is about to end", async () => {
    const [one, two] = [await gateway(), await gateway()];
    // A gateway without a subscription receives no orders.
    await becomes(async () => {
      expect(await one.board.give({ order: "uneject", address: NODE })).toBe(true);
      return two.told.unejected.includes(NODE);
    }, "the other host hears it");
    expect(one.told.unejected).toContain(NODE);
  });

  test("eject until their end by the store's time, also at later hosts, or until they are withdrawn", async () => {
    const [one, two] = [await gateway(), await gateway()];
    expect(await one.board.give({ order: "eject", address: NODE, forMs: 60_000 })).toBe(true);
    expect(await one.board.give({ order: "eject", address: "engine-2:50051", forMs: 1_000 })).toBe(true);
    await becomes(async () => two.told.ejected.length === 2, "the other host knows");
    const three = await gateway();
    const [ejection] = three.told.ejected.filter(({ address }) => address === NODE);
    expect(ejection?.leftMs).toBeGreaterThan(30_000);
    expect(ejection?.leftMs).toBeLessThanOrEqual(60_000);
    expect(one.told.ejected.find(({ address }) => address === NODE)?.endsAtMs).toBe(ejection?.endsAtMs);
    const name = `${keyPrefix}orders:ejected`;
    await becomes(async () => Number(await redis.ask("ZCARD", name)) === 1, "what has ended is forgotten");
    expect(await three.board.give({ order: "uneject", address: NODE })).toBe(true);
    await becomes(async () => one.told.ejected.length + two.told.ejected.length === 0, "all know");
  });

  test("made while the store is unreachable reach the others when it is back", async () => {
    const [one, two] = [await gateway(), await gateway()];
    await redis.stop("SIGKILL");
    expect(await one.board.give({ order: "drain", address: NODE })).toBe(false);
    expect(await one.board.give({ order: "uneject", address: NODE })).toBe(false);
    expect(await one.board.give({ order: "eject", address: NODE, forMs: 60_000 })).toBe(false);
    await redis.startAgain();
    // The orders reach the store one after the other, and the other host may read in between.
    await becomes(async () => one.told.drained.length + two.told.ejected.length === 2, "both hosts know all");
    expect([one.told.drained, two.told.drained]).toEqual([[NODE], [NODE]]);
    expect(two.told.ejected).toMatchObject([{ address: NODE }]);
  });
});
