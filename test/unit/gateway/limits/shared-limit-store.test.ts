import { describe, expect, test } from "vitest";
import { LimitHost } from "../../../../gateway/limits/limit-host.ts";
import type { LimitReply, LimitRequest } from "../../../../gateway/limits/limit-message.ts";
import type { ChargeItem } from "../../../../gateway/limits/limit-store.ts";
import { MemoryLimitStore } from "../../../../gateway/limits/memory-limit-store.ts";
import { SharedLimitStore } from "../../../../gateway/limits/shared-limit-store.ts";
import { ChannelPair } from "../../../support/channel-pair.ts";
import { takePlace } from "../../../support/gateway/upstream/take-place.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const ANSWER_MS = 1_000;

function bucket(perMinute: number, cost: number | undefined): ChargeItem {
  return { name: "rpm", rule: { kind: "bucket", perMinute, capacity: perMinute }, cost };
}

/** Gateway workers at the ends of channels to one host. */
function setUp(workers = 3) {
  const clock = new VirtualClock();
  const counts = new MemoryLimitStore(clock);
  const host = new LimitHost(counts);
  const said: number[] = [];
  const all = Array.from({ length: workers }, () => {
    const channel = new ChannelPair<LimitRequest, LimitReply>();
    const detach = host.attach(channel.host);
    const onSilence = () => said.push(clock.nowMs());
    const store = new SharedLimitStore({ channel: channel.worker, clock, workers, onSilence });
    return { channel, detach, store };
  });
  const [one, two, three] = all;
  if (!one || !two || !three) throw new Error("three are needed");
  const remaining = async () => (await counts.charge("k", [bucket(30, undefined)])).readings[0]?.remaining;
  return { clock, counts, one, two, three, said, remaining };
}

/** What was asked while the host is stuck, once it has waited for too long. */
async function overdue<T>(clock: VirtualClock, asked: Promise<T>): Promise<T> {
  await clock.advance(ANSWER_MS);
  return asked;
}

describe("while the host answers", () => {
  test("a limit holds for all workers together", async () => {
    const { one, two, three } = setUp();
    const stores = [one.store, two.store, three.store];
    const asked = Array.from({ length: 40 }, (_, at) => stores[at % 3]?.charge("k", [bucket(10, 1)]));
    const answers = await Promise.all(asked);
    expect(answers.filter((charged) => charged?.ok)).toHaveLength(10);
  });

  test("its answer is the host's own, with all readings", async () => {
    const { counts, one } = setUp();
    const items = [bucket(10, 4), { ...bucket(100, undefined), name: "otpm" }];
    expect(await one.store.charge("k", items)).toEqual({
      ok: true,
      readings: [
        { remaining: 6, resetMs: 24_000, waitMs: 0 },
        { remaining: 100, resetMs: 0, waitMs: 0 },
      ],
    });
    one.store.settle("k", "rpm", -3);
    expect((await counts.charge("k", [bucket(10, undefined)])).readings[0]?.remaining).toBe(9);
  });

  test("places are counted over all workers, and one is given back once only", async () => {
    const { one, two, three } = setUp();
    const first = await takePlace(one.store, "k", "concurrency", 2);
    const second = await takePlace(two.store, "k", "concurrency", 2);
    expect(first && second).toBeDefined();
    expect(await takePlace(three.store, "k", "concurrency", 2)).toBeUndefined();
    first?.release();
    first?.release();
    expect(await takePlace(three.store, "k", "concurrency", 2)).toBeDefined();
    expect(await takePlace(three.store, "k", "concurrency", 2)).toBeUndefined();
  });

  test("a worker that has ended gives all its places back, also one that was on its way to it", async () => {
    const { one, two } = setUp();
    await takePlace(one.store, "k", "concurrency", 2);
    one.channel.worker.send({
      ...{ limits: "charge", id: 999, keyId: "k", items: [] },
      places: [{ name: "concurrency", limit: 2 }],
    });
    one.detach();
    const places = [
      await takePlace(two.store, "k", "concurrency", 2),
      await takePlace(two.store, "k", "concurrency", 2),
    ];
    expect(places).toEqual([expect.anything(), expect.anything()]);
  });
});

describe("while the host is stuck", () => {
  test("each worker goes by its share of each limit, after the first wait without one", async () => {
    const { clock, one, said } = setUp();
    one.channel.stick();
    expect(one.store.shared).toBe(true);
    const first = await overdue(clock, one.store.charge("k", [bucket(30, 1)]));
    expect(first).toMatchObject({ ok: true, readings: [{ remaining: 9 }] });
    expect(one.store.shared).toBe(false);
    for (let i = 0; i < 9; i += 1) expect((await one.store.charge("k", [bucket(30, 1)])).ok).toBe(true);
    expect(await one.store.charge("k", [bucket(30, 1)])).toMatchObject({ ok: false, readings: [{ waitMs: 6_000 }] });
    expect(one.channel.waiting).toHaveLength(1);
    expect(said).toEqual([ANSWER_MS]);
  });

  test.each([
    { limit: 7, places: 2 },
    { limit: 1, places: 1 },
  ])("of $limit places it has $places", async ({ limit, places }) => {
    const { clock, one } = setUp();
    one.channel.stick();
    const taken = [await overdue(clock, takePlace(one.store, "k", "concurrency", limit))];
    while (taken.at(-1)) taken.push(await takePlace(one.store, "k", "concurrency", limit));
    expect(taken).toHaveLength(places + 1);
    taken[0]?.release();
    expect(await takePlace(one.store, "k", "concurrency", limit)).toBeDefined();
  });

  test("a day's total is shared, too", async () => {
    const { clock, one } = setUp();
    const day = (cost: number): ChargeItem => ({ name: "tokensPerDay", rule: { kind: "day", total: 300 }, cost });
    one.channel.stick();
    const first = await overdue(clock, one.store.charge("k", [day(0)]));
    expect(first.readings[0]?.remaining).toBe(100);
    one.store.settle("k", "tokensPerDay", 100);
    expect((await one.store.charge("k", [day(0)])).ok).toBe(false);
  });

  test("it says so once a minute", async () => {
    const { clock, one, said } = setUp();
    one.channel.stick();
    await overdue(clock, one.store.charge("k", [bucket(600, 1)]));
    for (let second = 0; second < 125; second += 1) {
      await clock.advance(1_000);
      await one.store.charge("k", [bucket(600, 1)]);
    }
    expect(said).toEqual([ANSWER_MS, ANSWER_MS + 60_000, ANSWER_MS + 120_000]);
  });
});

describe("when the host comes back", () => {
  test("it learns what was used meanwhile, each charge once", async () => {
    const { clock, one, remaining } = setUp();
    await one.store.charge("k", [bucket(30, 5)]);
    one.channel.stick();
    await overdue(clock, one.store.charge("k", [bucket(30, 4)]));
    await one.store.charge("k", [bucket(30, 3)]);
    one.store.settle("k", "rpm", -1);
    // 5, 4 and 3 less 1, and half a request came back in each second.
    await one.channel.comeBack();
    expect(one.store.shared).toBe(true);
    expect(await remaining()).toBe(30 - 5 + 0.5 - 4 - 3 + 1);
    expect(one.channel.waiting).toEqual([]);
    expect((await one.store.charge("k", [bucket(30, 1)])).readings[0]?.remaining).toBe(30 - 5 + 0.5 - 4 - 3 + 1 - 1);
  });

  test("what it took and the worker had refused is given back", async () => {
    const { clock, one, remaining } = setUp();
    one.channel.stick();
    // Too much for the worker's own share, as what is owed is more than that.
    await overdue(clock, one.store.charge("k", [bucket(30, 10)]));
    await one.channel.comeBack();
    one.channel.stick();
    const refused = await overdue(clock, one.store.charge("k", [bucket(30, 10)]));
    expect(refused.ok).toBe(false);
    await one.channel.comeBack();
    expect(await remaining()).toBe(20.5);
  });

  test("what it had refused and the worker granted is charged", async () => {
    const { clock, one, two, remaining } = setUp();
    await two.store.charge("k", [bucket(30, 30)]);
    one.channel.stick();
    const granted = await overdue(clock, one.store.charge("k", [bucket(30, 8)]));
    expect(granted.ok).toBe(true);
    await one.channel.comeBack();
    expect(await remaining()).toBe(0.5 - 8);
  });

  test("a place that it gave too late is free again", async () => {
    const { clock, one, two } = setUp();
    one.channel.stick();
    await overdue(clock, takePlace(one.store, "k", "concurrency", 1));
    await one.channel.comeBack();
    expect(await takePlace(two.store, "k", "concurrency", 1)).toBeDefined();
  });
});

test("what waits for the host is bounded: beyond it, a worker counts by itself at once", async () => {
  const { clock, one } = setUp();
  one.channel.stick();
  const asked = Array.from({ length: 10_050 }, () => one.store.charge("k", [bucket(60_000, 1)]));
  const own = await asked[10_049];
  expect(own).toMatchObject({ ok: true, readings: [{ remaining: 20_000 - 50 }] });
  await clock.advance(ANSWER_MS);
  expect((await Promise.all(asked)).every(({ ok }) => ok)).toBe(true);
});
