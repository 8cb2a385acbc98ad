import { expect, test } from "vitest";
import {
  FleetHistory,
  type GatewayCounts,
  type ModelCounts,
  POINT_MS,
} from "../../../../gateway/fleet/fleet-history.ts";
import { countFirstToken, noFirstTokens } from "../../../../gateway/stats/first-token-times.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const START = "2026-03-01T12:00:00Z";
const SHARES = [0.5, 0.95];

/** A history of counts set by the test; they are read every two seconds. */
function setUp() {
  const clock = new VirtualClock(START);
  const models = [modelOf("m"), modelOf("n")];
  let counts: GatewayCounts = { cpuMs: 0, models, withoutModel: { requests: 0, errors: 0 }, nodeDeltas: new Map() };
  const history = new FleetHistory(() => counts, clock);
  const set = (changed: Partial<GatewayCounts>) => {
    counts = { ...counts, ...changed };
  };
  return { clock, history, set };
}

function modelOf(model: string, counts: Partial<ModelCounts> = {}): ModelCounts {
  const requests = { active: 0, queued: 0, requests: 0, errors: 0, deltas: 0 };
  const caches = { promptTokens: 0, expectedTokens: 0, cachedTokens: 0 };
  return { model, ...requests, ...caches, firstTokenCounts: noFirstTokens(), ...counts };
}

/** Counts of so many first tokens after `ms` milliseconds. */
function after(ms: number, times: number): number[] {
  const counts = noFirstTokens();
  for (let at = 0; at < times; at += 1) countFirstToken(counts, ms);
  return counts;
}

test("a point sums all models, and its rates are by the time that has passed", async () => {
  const { clock, history, set } = setUp();
  for (let at = 1; at <= 5; at += 1) {
    const caches = { promptTokens: 100 * at, expectedTokens: 80 * at, cachedTokens: 60 * at };
    set({
      cpuMs: 25 * at,
      models: [
        modelOf("m", {
          ...{ ...caches, queued: 1, active: 2, requests: at, deltas: 20 * at },
          firstTokenCounts: after(100, at),
        }),
        modelOf("n", { errors: at, requests: at, deltas: 30 * at, firstTokenCounts: after(1_000, at) }),
      ],
    });
    await clock.advance(2_000);
  }
  expect(history.points("")).toHaveLength(1);
  const [point] = history.points("");
  expect(point).toMatchObject({ requestsPerSecond: 1, errorsPerSecond: 0.5, tokensPerSecond: 25 });
  expect(point).toMatchObject({ expectedShare: 0.8, cachedShare: 0.6, queued: 1, active: 2, cpuMsPerDelta: 0.5 });
  expect(point?.atMs).toBe(Date.parse(START) + POINT_MS);
  // The middle of a bucket differs from its values by a fifth at most.
  expect((point?.p50Ms ?? 0) / 100).toBeCloseTo(1, 0);
  expect((point?.p95Ms ?? 0) / 1_000).toBeCloseTo(1, 0);
  expect(history.newest("")).toMatchObject({ spanMs: 2_000, requests: 2, deltas: 50 });
  expect(history.newest("n")).toMatchObject({ spanMs: 2_000, errors: 1 });
  expect(history.recentFirstTokens("", SHARES)).toEqual([point?.p50Ms, point?.p95Ms]);
});

test("requests that ended before their model was known count in the total only", async () => {
  const { clock, history, set } = setUp();
  set({ models: [modelOf("m", { requests: 1 }), modelOf("n")], withoutModel: { requests: 4, errors: 3 } });
  await clock.advance(2_000);
  expect(history.newest("")).toMatchObject({ requests: 5, errors: 3 });
  expect(history.newest("m")).toMatchObject({ requests: 1, errors: 0 });
});

test("a model has points of its own, without processor time, which is not divided between models", async () => {
  const { clock, history, set } = setUp();
  set({ cpuMs: 100, models: [modelOf("m", { deltas: 10, queued: 1 }), modelOf("n", { deltas: 30 })] });
  await clock.advance(POINT_MS);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.tokensPerSecond)).toEqual([1, 3, 4]);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.queued)).toEqual([1, 0, 1]);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.cpuMsPerDelta)).toEqual([undefined, undefined, 2.5]);
  expect(history.points("other")).toEqual([]);
});

test("a node has the rate of the latest two readings, also after its count restarts", async () => {
  const { clock, history, set } = setUp();
  const rateAfter = async (...nodes: readonly [string, number][]) => {
    set({ nodeDeltas: new Map(nodes) });
    await clock.advance(2_000);
    return history.nodeTokensPerSecond("a");
  };
  expect(history.nodeTokensPerSecond("a")).toBeUndefined();
  expect(await rateAfter(["a", 100])).toBe(0);
  expect(await rateAfter(["a", 150])).toBe(25);
  expect(await rateAfter(["a", 10])).toBe(0);
  expect(await rateAfter(["b", 10])).toBeUndefined();
});

test("an hour of points is kept, and a minute of first tokens", async () => {
  const { clock, history, set } = setUp();
  set({ models: [modelOf("m", { firstTokenCounts: after(50, 3) })] });
  await clock.advance(POINT_MS);
  expect(history.recentFirstTokens("", SHARES)[0]).toBeGreaterThan(40);
  await clock.advance(999 * POINT_MS);
  expect(history.points("")).toHaveLength(360);
  expect(history.points("")[0]?.atMs).toBe(Date.parse(START) + 641 * POINT_MS);
  expect(history.recentFirstTokens("", SHARES)).toEqual([undefined, undefined]);
});

test("a closed history reads nothing more", async () => {
  const { clock, history, set } = setUp();
  history.close();
  set({ models: [modelOf("m", { requests: 10 })] });
  await clock.advance(POINT_MS);
  expect([history.newest("").requests, history.points("")]).toEqual([0, []]);
});
