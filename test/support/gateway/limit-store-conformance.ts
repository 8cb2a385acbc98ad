import { describe, expect, test } from "vitest";
import type { ChargeItem, LimitStore } from "../../../gateway/limits/limit-store.ts";
import { VirtualClock } from "../virtual-clock.ts";
import { takePermit } from "./upstream/take-permit.ts";

function bucket(name: string, perMinute: number, cost: number | undefined, capacity = perMinute): ChargeItem {
  return { name, rule: { kind: "bucket", perMinute, capacity }, cost };
}

export function limitStoreConformance(open: (clock: VirtualClock) => LimitStore | Promise<LimitStore>): void {
  async function setUp(startedAt = "2026-03-01T12:00:00.000Z") {
    const clock = new VirtualClock(startedAt);
    const store = await open(clock);
    const remaining = async (item: ChargeItem, keyId = "k") =>
      (await store.charge(keyId, [{ ...item, cost: undefined }])).readings[0]?.remaining;
    return { clock, store, remaining };
  }

  describe("charge", () => {
    test("takes all or nothing, reports the wait to the millisecond, and refunds", async () => {
      const { clock, store } = await setUp();
      const items = (cost: number) => [bucket("rpm", 100, 1), bucket("itpm", 500_000, 10), bucket("otpm", 5_000, cost)];
      const remains = ({ readings }: Awaited<ReturnType<typeof store.charge>>) => readings.map((one) => one.remaining);
      const first = await store.charge("k", items(4_096));
      expect(first.ok).toBe(true);
      expect(remains(first)).toEqual([99, 499_990, 904]);
      const second = await store.charge("k", items(4_096));
      expect(second.ok).toBe(false);
      expect(second.readings.map((one) => one.waitMs)).toEqual([0, 0, 38_304]);
      expect(remains(second)).toEqual([99, 499_990, 904]);
      store.settle("k", "otpm", -4_000);
      const third = await store.charge("k", items(4_096));
      expect(third.ok).toBe(true);
      expect(remains(third)).toEqual([98, 499_980, 808]);
      clock.jump(39_456);
      expect((await store.charge("k", items(4_096))).ok).toBe(true);
    });

    test("admits exactly a hundred of 800 at one time", async () => {
      const { store } = await setUp();
      const all = await Promise.all(Array.from({ length: 800 }, () => store.charge("k", [bucket("rpm", 100, 1)])));
      expect(all.filter(({ ok }) => ok)).toHaveLength(100);
    });

    test("a limit store counts keys separately", async () => {
      const { store } = await setUp();
      expect((await store.charge("a", [bucket("rpm", 1, 1)])).ok).toBe(true);
      expect((await store.charge("a", [bucket("rpm", 1, 1)])).ok).toBe(false);
      expect((await store.charge("b", [bucket("rpm", 1, 1)])).ok).toBe(true);
    });

    test("asks with a cost of nothing only that nothing is owed, and without a cost not even that", async () => {
      const { store } = await setUp();
      await store.charge("k", [bucket("otpm", 100, 50)]);
      store.settle("k", "otpm", 50);
      expect((await store.charge("k", [bucket("otpm", 100, 0)])).ok).toBe(true);
      store.settle("k", "otpm", 1);
      expect(await store.charge("k", [bucket("otpm", 100, 0)])).toMatchObject({
        ok: false,
        readings: [{ waitMs: 600 }],
      });
      expect(await store.charge("k", [bucket("otpm", 100, undefined)])).toMatchObject({
        ok: true,
        readings: [{ remaining: -1, waitMs: 0, resetMs: 60_600 }],
      });
    });

    test("applies the newest rule at once", async () => {
      const { clock, store, remaining } = await setUp();
      for (let i = 0; i < 10; i += 1) await store.charge("k", [bucket("rpm", 10, 1)]);
      expect((await store.charge("k", [bucket("rpm", 10, 1)])).ok).toBe(false);
      expect((await store.charge("k", [bucket("rpm", 15, 1)])).ok).toBe(true);
      expect(await remaining(bucket("rpm", 15, 1))).toBe(4);
      expect((await store.charge("k", [bucket("rpm", 3, 1)])).ok).toBe(true);
      expect(await remaining(bucket("rpm", 3, 1))).toBe(2);
      clock.jump(60_000);
      expect(await remaining(bucket("rpm", 3, 1))).toBe(3);
    });

    test("settling a late end includes the refill before it", async () => {
      const { clock, store, remaining } = await setUp();
      await store.charge("k", [bucket("otpm", 100, 0)]);
      clock.jump(600_000);
      store.settle("k", "otpm", 150);
      expect(await remaining(bucket("otpm", 100, 0))).toBe(-50);
    });

    test("settles nothing that was never charged", async () => {
      const { store, remaining } = await setUp();
      store.settle("k", "otpm", 1_000);
      expect(await remaining(bucket("otpm", 100, 0))).toBe(100);
    });
  });

  describe("a total per day", () => {
    const quota: ChargeItem = { name: "tokensPerDay", rule: { kind: "day", total: 1_000 }, cost: 0 };

    test("passes until it is used up, and again from midnight in UTC", async () => {
      const { clock, store, remaining } = await setUp("2026-03-01T23:00:00.000Z");
      expect((await store.charge("k", [quota])).ok).toBe(true);
      store.settle("k", quota.name, 999);
      expect((await store.charge("k", [quota])).ok).toBe(true);
      store.settle("k", quota.name, 501);
      expect(await store.charge("k", [quota])).toEqual({
        ok: false,
        readings: [{ remaining: -500, resetMs: 3_600_000, waitMs: 3_600_000 }],
      });
      clock.jump(3_599_999);
      expect((await store.charge("k", [quota])).ok).toBe(false);
      clock.jump(1);
      expect((await store.charge("k", [quota])).ok).toBe(true);
      expect(await remaining(quota)).toBe(1_000);
    });

    test("is open again as soon as it is raised", async () => {
      const { store } = await setUp();
      await store.charge("k", [quota]);
      store.settle("k", quota.name, 1_000);
      expect((await store.charge("k", [quota])).ok).toBe(false);
      expect((await store.charge("k", [{ ...quota, rule: { kind: "day", total: 1_001 } }])).ok).toBe(true);
    });
  });

  describe("permit", () => {
    test("gives out as many permits as there are", async () => {
      const { store } = await setUp();
      const permits = await Promise.all(Array.from({ length: 64 }, () => takePermit(store, "k", "concurrency", 10)));
      const held = permits.filter((permit) => permit !== undefined);
      expect(held).toHaveLength(10);
      expect(store.held("k", "concurrency")).toBe(10);
      held[0]?.release();
      expect(await takePermit(store, "k", "concurrency", 10)).toBeDefined();
      expect(await takePermit(store, "k", "concurrency", 10)).toBeUndefined();
      expect(await takePermit(store, "other", "concurrency", 10)).toBeDefined();
      expect(await takePermit(store, "k", "concurrency:svc-qwen", 10)).toBeDefined();
    });

    test("a limit store applies the newest limit of permits", async () => {
      const { store } = await setUp();
      const [first, second] = [await takePermit(store, "k", "c", 2), await takePermit(store, "k", "c", 2)];
      expect(await takePermit(store, "k", "c", 3)).toBeDefined();
      first?.release();
      second?.release();
      expect(await takePermit(store, "k", "c", 1)).toBeUndefined();
    });
  });

  describe("charge and permit", () => {
    test("are one decision: of a refused one nothing is taken", async () => {
      const { store, remaining } = await setUp();
      const permit = { name: "concurrency", limit: 1 };
      const first = await store.charge("k", [bucket("rpm", 10, 1)], permit);
      expect(first).toMatchObject({ ok: true, readings: [{ remaining: 9 }] });
      const full = await store.charge("k", [bucket("rpm", 10, 1)], permit);
      expect(full).toMatchObject({ ok: false, refusedBy: "permit", readings: [{ remaining: 9, waitMs: 0 }] });
      expect(store.held("k", permit.name)).toBe(1);
      store.release("k", [permit.name]);
      const dear = await store.charge("k", [bucket("rpm", 10, 10)], permit);
      expect(dear.ok).toBe(false);
      expect(dear.refusedBy).toBeUndefined();
      expect(store.held("k", permit.name)).toBe(0);
      expect(await remaining(bucket("rpm", 10, 0))).toBe(9);
      expect((await store.charge("k", [bucket("rpm", 10, 1)], permit)).ok).toBe(true);
    });

    test("may be of several permits, of which all are taken or none", async () => {
      const { store } = await setUp();
      const [all, one] = [
        { name: "concurrency", limit: 2 },
        { name: "concurrency:m", limit: 1 },
      ];
      const both = await store.charge("k", [bucket("rpm", 10, 1)], all, one);
      expect(both.ok).toBe(true);
      const refused = await store.charge("k", [bucket("rpm", 10, 1)], all, one);
      expect(refused).toMatchObject({ ok: false, refusedBy: "permit", full: "concurrency:m" });
      expect(await takePermit(store, "k", "concurrency", 2)).toBeDefined();
      expect(await store.charge("k", [], all, one)).toMatchObject({ refusedBy: "permit", full: "concurrency" });
      store.release("k", [all.name, one.name]);
      expect(await takePermit(store, "k", "concurrency:m", 1)).toBeDefined();
      expect(await takePermit(store, "k", "concurrency", 2)).toBeDefined();
      expect(await takePermit(store, "k", "concurrency", 2)).toBeUndefined();
    });
  });

  test("a debt stays through a change of the rule, and flows off by the newest", async () => {
    const { clock, store, remaining } = await setUp();
    await store.charge("k", [bucket("otpm", 60, 10)]);
    store.settle("k", "otpm", 110);
    expect(await remaining(bucket("otpm", 60, 0))).toBe(-60);
    expect(await remaining(bucket("otpm", 600, 0))).toBe(480);
    store.settle("k", "otpm", 500);
    clock.jump(1_000);
    expect(await remaining(bucket("otpm", 600, 0))).toBe(-10);
  });

  test("an end that comes long after the count was full again is counted", async () => {
    const { clock, store, remaining } = await setUp();
    await store.charge("k", [bucket("otpm", 600, 100)]);
    clock.jump(50 * 3_600_000);
    store.settle("k", "otpm", 650);
    expect(await remaining(bucket("otpm", 600, 0))).toBe(-50);
  });
}
