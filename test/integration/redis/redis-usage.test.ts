import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RedisUsage } from "../../../gateway/usage/redis-usage.ts";
import { NO_USE, type UsageEntry } from "../../../gateway/usage/usage-store.ts";
import { connectTo } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

const DAY_MS = 86_400_000;
const clock = new VirtualClock("2026-03-01T12:00:00Z");
const closing: (() => void)[] = [];
let redis: RedisProcess;

async function gateway() {
  const state = await connectTo(redis, { keyPrefix: "u:", commandTimeoutMs: 30_000 });
  closing.push(() => state.close());
  return new RedisUsage(state, clock);
}

function entry(keyId: string, requests: number, day = Math.floor(clock.wallMs() / DAY_MS)): UsageEntry {
  return { keyId, day, model: "svc-qwen", counts: { ...NO_USE, requests, inputTokens: 10 * requests } };
}

describe.skipIf(!HAS_REDIS)(`the use of keys, at the gateways of several hosts (${NO_REDIS})`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start();
  });
  afterAll(async () => {
    for (const close of closing) close();
    await redis.stop();
  });

  test("the use of keys is summed, and a batch that comes twice counts once", async () => {
    const [one, two] = [await gateway(), await gateway()];
    const batches = Array.from({ length: 20 }, (_, at) => ({
      number: at + 1,
      entries: [entry("a", 1), entry("b", 2)],
    }));
    for (const batch of batches) {
      expect(await Promise.all([one.add(batch), two.add(batch), one.add(batch)])).toEqual([true, true, true]);
    }
    expect(await one.add({ number: 3, entries: [entry("a", 1)] })).toBe(true);
    expect((await two.read("a"))?.entries).toEqual([entry("a", 40)]);
    expect((await one.read("b"))?.entries).toEqual([entry("b", 80)]);
    expect((await one.read("unknown"))?.entries).toEqual([]);
  });

  test("the use of keys is added to by a newer release, whose other counts are ignored", async () => {
    const one = await gateway();
    await one.add({ number: 1, entries: [entry("d", 1)] });
    const { day } = entry("d", 1);
    await redis.ask("HSET", "u:usage:{d}", `u|${day}|99|svc-qwen`, "7", `later|${day}`, "text");
    expect(await one.add({ number: 2, entries: [entry("d", 1)] })).toBe(true);
    expect((await one.read("d"))?.entries).toEqual([entry("d", 2)]);
  });

  test("the use of keys is kept for 31 days, and gateways that have left are forgotten", async () => {
    const [one, two] = [await gateway(), await gateway()];
    const first = entry("c", 1);
    await one.add({ number: 1, entries: [first] });
    await clock.advance(30 * DAY_MS);
    await two.add({ number: 1, entries: [entry("c", 2)] });
    expect((await two.read("c"))?.entries).toEqual([first, entry("c", 2)]);
    await clock.advance(DAY_MS);
    await two.add({ number: 2, entries: [entry("c", 3)] });
    expect((await two.read("c"))?.entries.map(({ counts }) => counts.requests)).toEqual([2, 3]);
    const state = await connectTo(redis, { keyPrefix: "u:", commandTimeoutMs: 30_000 });
    const fields = await state.ask((client) => client.hkeys("u:usage:{c}"));
    state.close();
    expect(fields.filter((field) => field.startsWith("s|"))).toHaveLength(1);
  });

  test("the use of keys of an unreachable store is undefined, and not added", async () => {
    const own = await RedisProcess.start();
    const state = await connectTo(own, { keyPrefix: "u:", commandTimeoutMs: 30_000 });
    closing.push(() => state.close());
    const usage = new RedisUsage(state, clock);
    await own.stop();
    expect(await usage.add({ number: 1, entries: [entry("a", 1)] })).toBe(false);
    expect(await usage.read("a")).toBeUndefined();
  });
});
