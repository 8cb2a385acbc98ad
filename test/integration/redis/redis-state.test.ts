import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RedisState } from "../../../gateway/state/redis-state.ts";
import { stateSchema } from "../../../gateway/state/state-settings.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const LATE_MS = 500;

let redis: RedisProcess;
let clock: VirtualClock;
let state: RedisState;

/** Sends a command; resolves to its reply, or to the reason of its failure. */
const ask = () => state.ask((client) => client.ping()).catch((error: Error) => error.name);

describe.skipIf(!HAS_REDIS)(`answers of a store that are late${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });

  beforeEach(async () => {
    clock = new VirtualClock();
    const { redis: settings } = stateSchema.parse({
      redis: { url: `redis://${redis.address}` },
    });
    if (!settings) throw new Error("there are settings");
    state = new RedisState({ settings, clock, commandTimeoutMs: LATE_MS });
    await state.connect();
    expect(await ask()).toBe("PONG");
    redis.signal("SIGSTOP");
  });

  afterEach(() => {
    redis.signal("SIGCONT");
    state.close();
  });

  afterAll(() => redis?.end());

  test("one is waited for, however many questions wait with it", async () => {
    const first = ask();
    await clock.advance(LATE_MS - 1);
    const second = ask();
    await clock.advance(LATE_MS - 1);
    redis.signal("SIGCONT");
    expect(await Promise.all([first, second])).toEqual(["PONG", "PONG"]);
  });

  test.each([
    ["two consecutive late ones mean that the store is unreachable", false, "StoreTimeout"],
    ["with one in time between them they do not", true, "PONG"],
  ])("where answers of a store are late, %s", async (_what, isOneInTime, reply) => {
    const first = ask();
    await clock.advance(LATE_MS);
    redis.signal("SIGCONT");
    expect(await first).toBe("PONG");
    if (isOneInTime) expect(await ask()).toBe("PONG");
    redis.signal("SIGSTOP");
    const second = ask();
    await clock.advance(LATE_MS);
    if (isOneInTime) redis.signal("SIGCONT");
    expect(await second).toBe(reply);
  });

  test("one that takes twice as long means that the store is unreachable", async () => {
    const first = ask();
    await clock.advance(2 * LATE_MS);
    expect(await first).toBe("StoreTimeout");
  });
});
