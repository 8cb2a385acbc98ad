import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../../deploy/runtime/time/clock.ts";
import { RedisOrders } from "../../../gateway/upstream/orders/redis-orders.ts";
import { becomes } from "../../support/becomes.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

const NODE = "engine-1:50051";
const closing: (() => void)[] = [];
let redis: RedisProcess;
let keyPrefix: string;
let prefixes = 0;

/** A gateway of some host, and what it has been told. */
async function gateway() {
  const state = await connectTo(redis, { keyPrefix, commandTimeoutMs: 500 });
  const board = new RedisOrders(state, systemClock);
  const told = { drained: [] as readonly string[], unejected: [] as string[] };
  const unfollow = await board.follow({
    drained: (addresses) => {
      told.drained = addresses;
    },
    unejected: (address) => told.unejected.push(address),
  });
  closing.push(() => {
    unfollow();
    state.close();
  });
  return { board, told };
}

describe.skipIf(!HAS_REDIS)(`what operators order at one of several hosts (${NO_REDIS})`, () => {
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

  test("is known at all, and at those that come later, until it is taken back", async () => {
    const [one, two] = [await gateway(), await gateway()];
    expect(await one.board.give({ order: "drain", address: NODE })).toBe(true);
    expect(one.told.drained).toEqual([NODE]);
    await becomes(async () => two.told.drained.includes(NODE), "the other host knows");
    const three = await gateway();
    expect(three.told.drained).toEqual([NODE]);
    expect(await three.board.give({ order: "undrain", address: NODE })).toBe(true);
    await becomes(async () => one.told.drained.length + two.told.drained.length === 0, "all know");
  });

  test("is heard where an ejection is to end", async () => {
    const [one, two] = [await gateway(), await gateway()];
    // Whoever is not subscribed yet hears nothing.
    await becomes(async () => {
      expect(await one.board.give({ order: "uneject", address: NODE })).toBe(true);
      return two.told.unejected.includes(NODE);
    }, "the other host hears it");
    expect(one.told.unejected).toContain(NODE);
  });

  test("while the store is away reaches the others when it is back", async () => {
    const [one, two] = [await gateway(), await gateway()];
    await redis.stop("SIGKILL");
    expect(await one.board.give({ order: "drain", address: NODE })).toBe(false);
    expect(await one.board.give({ order: "uneject", address: NODE })).toBe(false);
    await redis.startAgain();
    await becomes(async () => two.told.drained.includes(NODE), "the other host knows");
    expect(one.told.drained).toEqual([NODE]);
  });
});
