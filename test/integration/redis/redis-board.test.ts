import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { GatewayReport } from "../../../gateway/fleet/gateway-report.ts";
import { RedisBoard } from "../../../gateway/fleet/redis-board.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";

function reportOf(id: string): GatewayReport {
  const withoutModel = { requests: 0, errors: 0 };
  const rest = {
    uptimeMs: 0,
    connections: 0,
    rssBytes: 0,
    cpuMs: 0,
    loopActiveMs: 0,
    models: [],
    nodes: [],
    withoutModel,
  };
  return { id, host: "h", worker: 1, state: "LIVE", ...rest };
}

describe.skipIf(!HAS_REDIS)(`what gateways of several hosts tell of themselves (${NO_REDIS})`, () => {
  const closing: (() => void)[] = [];
  let redis: RedisProcess;
  const connect = async () => {
    const state = await connectTo(redis, { keyPrefix: "f:", commandTimeoutMs: 2_000 });
    closing.push(() => state.close());
    return state;
  };
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });
  afterAll(async () => {
    for (const close of closing) close();
    await redis.stop();
  });

  test("reaches all of them, and is forgotten once it is old", async () => {
    const [one, two] = [new RedisBoard(await connect()), new RedisBoard(await connect())];
    expect(await one.exchange(reportOf("1"))).toEqual([{ report: reportOf("1"), ageMs: expect.any(Number) }]);
    const ids = (await two.exchange(reportOf("2")))?.map(({ report }) => report.id).sort();
    expect(ids).toEqual(["1", "2"]);
    const state = await connect();
    // A gateway that has said nothing for two minutes, and one of a version that writes another form.
    const [old, other] = [`${Date.now() - 120_000} ${JSON.stringify(reportOf("old"))}`, `${Date.now()} {"id":7}`];
    await state.ask((client) => client.hset("f:fleet", "old", old, "other", other));
    const seen = await one.exchange(reportOf("1"));
    expect(seen?.map(({ report }) => report.id).sort()).toEqual(["1", "2"]);
    expect(await state.ask((client) => client.hexists("f:fleet", "old"))).toBe(0);
  });

  test("is not known while the store is away", async () => {
    const own = await RedisProcess.start();
    const state = await connectTo(own, { keyPrefix: "f:", commandTimeoutMs: 200 });
    closing.push(() => state.close());
    await own.stop();
    expect(await new RedisBoard(state).exchange(reportOf("1"))).toBeUndefined();
  });
});
