import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Grant } from "../../../gateway/limits/grant.ts";
import type { ChargeItem } from "../../../gateway/limits/limit-store.ts";
import { Limiter } from "../../../gateway/limits/limiter.ts";
import { becomes } from "../../support/becomes.ts";
import { limitStoreConformance } from "../../support/gateway/limit-store-conformance.ts";
import { principalWith } from "../../support/gateway/principal-with.ts";
import { takePermit } from "../../support/gateway/upstream/take-permit.ts";
import { type OpenLimits, openLimits } from "../../support/redis/open-limits.ts";
import { HAS_REDIS, NO_REDIS, RedisProcess } from "../../support/redis/redis-process.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

/** Milliseconds after which an answer is late, on a clock that only the test moves: a slow machine makes none late. */
const LATE_MS = 600_000;

let redis: RedisProcess;
let clock: VirtualClock;
let opened: OpenLimits[] = [];
let prefixes = 0;

/**
 * A store with the counts of one test; `gateways` of them count together, with a clock of their own through `nowMs`.
 */
async function open(gateways = 1, settings: object = {}, own: { nowMs?: () => number } = {}): Promise<OpenLimits[]> {
  prefixes += 1;
  const all = { keyPrefix: `test${prefixes}:`, clock, commandTimeoutMs: LATE_MS, ...settings };
  const opening = Array.from({ length: gateways }, () => openLimits(redis, all, own));
  const stores = await Promise.all(opening);
  opened.push(...stores);
  return stores;
}

/** Resolves when the condition holds after heartbeats of the gateways. */
function comesWithBeats(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  return becomes(async () => {
    await clock.advance(1_000);
    return condition();
  }, what);
}

/** Stops the store, lets gateways give up what they ask meanwhile, and resolves to its result. */
async function whileSilent<T>(asked: () => Promise<T>): Promise<T> {
  redis.signal("SIGSTOP");
  const result = asked();
  // The heartbeats that are given up, too, were sent a second later.
  await clock.advance(2 * LATE_MS + 1_000);
  return result;
}

function bucket(perMinute: number, cost: number | undefined): ChargeItem {
  return { name: "rpm", rule: { kind: "bucket", perMinute, capacity: perMinute }, cost };
}

/** A limit with negligible refill: one unit in a hundred thousand minutes. */
function still(cost: number | undefined): ChargeItem {
  return { name: "otpm", rule: { kind: "bucket", perMinute: 1e-5, capacity: 1_000 }, cost };
}

async function remainingIn({ store }: OpenLimits): Promise<number> {
  return Math.round((await store.charge("k", [still(undefined)])).readings[0]?.remaining ?? Number.NaN);
}

describe.skipIf(!HAS_REDIS)(`a limit store in Redis${HAS_REDIS ? "" : ` (${NO_REDIS})`}`, () => {
  beforeAll(async () => {
    redis = await RedisProcess.start("--appendonly", "yes");
  });

  beforeEach(() => {
    clock = new VirtualClock();
  });

  afterEach(async () => {
    redis.signal("SIGCONT");
    for (const each of opened) await each.close();
    opened = [];
  });

  afterAll(() => redis?.end());

  limitStoreConformance(async (storeClock) => {
    const [one] = await open(1, {}, { nowMs: () => storeClock.wallMs() });
    if (!one) throw new Error("there is one");
    return one.store;
  });

  test.each([
    ["as time goes", {}],
    ["also in the millisecond in which they start", { nowMs: () => 1_000_000 }],
  ])("a limit and its permits hold for all gateways together, to the unit, %s", async (_, own) => {
    const all = await open(4, {}, own);
    const asked = Array.from({ length: 64 }, (_, at) =>
      all[at % 4]?.store.charge("k", [still(1)], { name: "c", limit: 10 }),
    );
    const answers = await Promise.all(asked);
    expect(answers.filter((answer) => answer?.ok)).toHaveLength(10);
    for (const [at, answer] of answers.entries()) if (answer?.ok) all[at % 4]?.store.release("k", ["c"]);
    const [one, two] = all;
    if (!one || !two) throw new Error("there are four");
    one.store.settle("k", "otpm", 0.5);
    two.store.settle("k", "otpm", 2.5);
    await becomes(async () => (await remainingIn(one)) === 987, "all is counted");
  });

  test("a generation of a key with all kinds of limits takes one round trip, and is refused as with two", async () => {
    const principal = principalWith({
      ...{ rpm: 40, itpm: 1_000_000, otpm: 1_000_000, concurrency: 30 },
      perModel: { "svc-qwen": { rpm: 25, concurrency: 26 } },
    });
    const limiters = (await open(2, {}, { nowMs: () => 1e12 })).map(({ store }) => new Limiter(store));
    const before = await commands("evalsha");
    const grants: Grant[] = [];
    const run = async (at: number) => {
      const limiter = limiters[at % 2];
      if (!limiter) throw new Error("there are two");
      const { grant, refusal } = await limiter.admit(principal, "generation");
      grants.push(grant);
      return refusal ?? (await limiter.reserve(grant, principal, EXPECTED));
    };
    for (let at = 0; at < 20; at += 1) expect(await run(at)).toBeUndefined();
    expect((await commands("evalsha")) - before).toBe(20);
    const refusals = await Promise.all(Array.from({ length: 20 }, (_, at) => run(at)));
    expect(refusals.filter((refusal) => refusal === undefined)).toHaveLength(5);
    expect(new Set(refusals.map((refusal) => refusal?.detail))).toEqual(new Set([undefined, "key_model_rpm_exceeded"]));
    for (const grant of grants) {
      grant.settleWithoutTokens();
      grant.release();
    }
    const [limiter] = limiters;
    const rpm = async () =>
      (await limiter?.look(principal))?.counted.find(({ dimension }) => dimension.name === "rpm")?.reading.remaining;
    await becomes(async () => Math.floor((await rpm()) ?? 0) === 15, "those that were refused count for nothing");
  });

  test("a key over its limit gets 429 before its body is read; an aborted upload counts as one request", async () => {
    const [one] = await open(1, {}, { nowMs: () => 1e12 });
    if (!one) throw new Error("there is one");
    const [limiter, principal] = [new Limiter(one.store), principalWith({ rpm: 2, otpm: 1_000 })];
    const { grant } = await limiter.admit(principal, "generation");
    grant.settleWithoutTokens();
    grant.release();
    const rpm = async () => Math.round((await one.store.charge("keyA", [rule(undefined)])).readings[0]?.remaining ?? 2);
    const rule = (cost: number | undefined): ChargeItem => ({ ...bucket(2, cost), name: "rpm" });
    await becomes(async () => (await rpm()) === 1, "it is counted");
    const second = await limiter.admit(principal, "generation");
    expect(await limiter.reserve(second.grant, principal, EXPECTED)).toBeUndefined();
    const third = await limiter.admit(principal, "generation");
    expect(third.refusal).toMatchObject({ detail: "key_rpm_exceeded" });
  });

  test("a postponed charge and its permit count until it ends, which it does once", async () => {
    const [one] = await open();
    const postpone = (cost: number, most: number) =>
      one?.store.postpone("k", [still(cost)], { name: "c", limit: most });
    const note = postpone(600, 1);
    expect(note).toBeDefined();
    expect(postpone(600, 2)).toBeUndefined();
    expect(postpone(400, 1)).toBeUndefined();
    expect(postpone(400, 2)).toBeDefined();
    note?.end();
    note?.end();
    expect(postpone(601, 2)).toBeUndefined();
    expect(postpone(600, 2)).toBeDefined();
    expect(postpone(0, 2)).toBeUndefined();
  });

  test("a gateway renews the permits that it holds by one command a second, however many there are", async () => {
    const [one] = await open();
    if (!one) throw new Error("there is one");
    for (let at = 0; at < 500; at += 1) await takePermit(one.store, `k${at % 50}`, "c", 100);
    const before = await commands("evalsha");
    for (let beats = 1; beats <= 3; beats += 1) {
      await clock.advance(1_000);
      await becomes(async () => (await commands("evalsha")) - before >= beats, "a heartbeat");
    }
    expect((await commands("evalsha")) - before).toBe(3);
  });

  test("a script that the store has forgotten is loaded again", async () => {
    const [one] = await open();
    await one?.store.charge("k", [still(1)]);
    await redis.ask("SCRIPT", "FLUSH");
    expect((await one?.store.charge("k", [still(1)]))?.ok).toBe(true);
    expect(one?.said).toEqual([]);
  });

  test("fields of a newer release stay, and counts without a charge expire", async () => {
    const [one] = await open();
    const name = `test${prefixes}:limits:{k}`;
    await redis.ask("HSET", name, "later|otpm", "one two three");
    await one?.store.charge("k", [bucket(60, 1)]);
    expect((await one?.store.charge("k", [bucket(60, 1)]))?.readings[0]?.remaining).toBeCloseTo(58, 0);
    expect(await redis.ask("HGET", name, "later|otpm")).toBe("one two three");
    const ttl = Number(await redis.ask("PTTL", name));
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(86_400_000);
  });

  test("a stopped store is unreachable: each gateway uses its share, and reports all use once afterwards", async () => {
    const [one, two] = await open(2);
    if (!one || !two) throw new Error("there are two");
    await comesWithBeats(() => one.store.state.gateways === 2 && two.store.state.gateways === 2, "both are known");
    expect((await one.store.charge("k", [still(100)])).ok).toBe(true);
    // Decided locally, although the store may still take it.
    expect((await whileSilent(() => one.store.charge("k", [still(300)]))).ok).toBe(true);
    expect(one.store.state.shared).toBe(false);
    expect((await one.store.charge("k", [still(100)])).ok).toBe(true);
    // Its share is half of the 900 that remained.
    expect((await one.store.charge("k", [still(51)])).ok).toBe(false);
    one.store.settle("k", "otpm", -50);
    expect((await one.store.charge("k", [still(100)])).ok).toBe(true);
    expect((await two.store.charge("k", [still(10)])).ok).toBe(true);
    redis.signal("SIGCONT");
    await comesWithBeats(() => one.store.state.shared && two.store.state.shared, "the store is back");
    await becomes(
      async () => (await remainingIn(two)) === 1_000 - 100 - 300 - 100 + 50 - 100 - 10,
      "all is counted once",
    );
    expect(one.said.at(-1)).toBe("back");
  });

  test("a store that falls silent lets a caller of one gateway use its limits once, with and without answers", async () => {
    const [one] = await open();
    if (!one) throw new Error("there is one");
    const quota: ChargeItem = { name: "tokensPerDay", rule: { kind: "day", total: 500 }, cost: 0 };
    const ask = (number: number) =>
      Promise.all(Array.from({ length: number }, () => one.store.charge("k", [still(10)])));
    const passed = async (asked: ReturnType<typeof ask>) => (await asked).filter(({ ok }) => ok).length;
    await one.store.charge("k", [quota]);
    one.store.settle("k", quota.name, 500);
    expect(await passed(ask(60))).toBe(60);
    expect((await one.store.charge("k", [quota])).ok).toBe(false);
    expect(await passed(whileSilent(() => ask(80)))).toBe(40);
    expect(await passed(ask(1))).toBe(0);
    expect((await one.store.charge("k", [quota])).ok).toBe(false);
    redis.signal("SIGCONT");
    await comesWithBeats(() => one.store.state.shared, "the store is back");
    await becomes(async () => (await remainingIn(one)) === 0, "all is counted once");
  });

  test("permits are held through an outage, and locally granted ones are reported afterwards", async () => {
    const [one, two] = await open(2);
    if (!one || !two) throw new Error("there are two");
    await comesWithBeats(() => one.store.state.gateways === 2, "both are known");
    const first = await takePermit(one.store, "k", "c", 6);
    const alone = [
      await whileSilent(() => takePermit(one.store, "k", "c", 6)),
      await takePermit(one.store, "k", "c", 6),
    ];
    expect(alone.every((permit) => permit !== undefined)).toBe(true);
    // Its share is three, of which it had one before.
    expect(await takePermit(one.store, "k", "c", 6)).toBeUndefined();
    first?.release();
    redis.signal("SIGCONT");
    await comesWithBeats(() => one.store.state.shared && two.store.state.shared, "the store is back");
    await becomes(async () => (await takePermit(two.store, "k", "c", 3)) !== undefined, "the first is free");
    expect(await takePermit(two.store, "k", "c", 3)).toBeUndefined();
    for (const permit of alone) permit?.release();
    await becomes(async () => (await takePermit(two.store, "k", "c", 2)) !== undefined, "all of the first are free");
  });

  test("without the store requests with limits are refused, if configured", async () => {
    const [one] = await open(1, { whenAway: "refuse" });
    if (!one) throw new Error("there is one");
    await one.store.charge("k", [still(100)]);
    const refused = await whileSilent(() => one.store.charge("k", [still(300)]));
    expect(refused).toEqual({ ok: false, refusedBy: "store", readings: [] });
    expect((await one.store.charge("k", [still(undefined)])).ok).toBe(true);
    one.store.settle("k", "otpm", 20);
    redis.signal("SIGCONT");
    await comesWithBeats(() => one.store.state.shared, "the store is back");
    // The store's charge for the refused request is refunded.
    await becomes(async () => (await remainingIn(one)) === 880, "all is counted once");
  });

  test("a store that loses its connections loses no count, and counts none twice", async () => {
    const [one] = await open();
    if (!one) throw new Error("there is one");
    let granted = 0;
    for (let round = 0; round < 10; round += 1) {
      const asked = Array.from({ length: 20 }, () => one.store.charge("k", [still(1)]));
      for (let at = 0; at < 20; at += 1) one.store.settle("k", "otpm", 0.5);
      void redis.ask("CLIENT", "KILL", "TYPE", "normal").catch(() => {});
      granted += (await Promise.all(asked)).filter(({ ok }) => ok).length;
      await comesWithBeats(() => one.store.state.shared, "the store is back");
    }
    // The last connection may be lost only now.
    const allIsCounted = async () => one.store.state.shared && (await remainingIn(one)) === 1_000 - granted - 100;
    await comesWithBeats(allIsCounted, "all is counted once");
  });
});

const EXPECTED = { model: "svc-qwen", inputTokens: 10, maxOutputTokens: 10 };

/** Resolves to how often the store received a command. */
async function commands(name: string): Promise<number> {
  const stats = String(await redis.ask("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
