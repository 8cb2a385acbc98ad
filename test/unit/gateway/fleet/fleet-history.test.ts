import { expect, test } from "vitest";
import { FleetHistory, POINT_MS } from "../../../../gateway/fleet/fleet-history.ts";
import type { GatewayReport } from "../../../../gateway/fleet/gateway-report.ts";
import { countFirstToken, noFirstTokens } from "../../../../gateway/stats/first-token-times.ts";

const STEP_MS = 2_000;
const SHARES = [0.5, 0.95];

type ModelReport = GatewayReport["models"][number];

function report(
  id: string,
  model: Partial<ModelReport> = {},
  cpuMs = 0,
  withoutModel = { requests: 0, errors: 0 },
): GatewayReport {
  const counts = { active: 0, queued: 0, requests: 0, errors: 0, deltas: 0 };
  const caches = { promptTokens: 0, expectedTokens: 0, cachedTokens: 0, cacheReasons: [] };
  return {
    ...{ id, host: "h", worker: 1, state: "LIVE", uptimeMs: 1, connections: 0, rssBytes: 0, cpuMs, loopActiveMs: 0 },
    models: [{ model: "m", ...counts, ...caches, firstTokens: noFirstTokens(), ...model }],
    withoutModel,
    nodes: [],
  };
}

/** Counts of so many first tokens after `ms` milliseconds. */
function after(ms: number, times: number): number[] {
  const counts = noFirstTokens();
  for (let at = 0; at < times; at += 1) countFirstToken(counts, ms);
  return counts;
}

test("a point is the sum over all gateways, and rates are by the time that has passed", () => {
  const history = new FleetHistory();
  history.add([report("a", { requests: 100, deltas: 1_000 }, 500), report("b")], 0, 1_000_000);
  for (let at = 1; at <= POINT_MS / STEP_MS; at += 1) {
    const own = { queued: 1, active: 2, promptTokens: 100 * at, expectedTokens: 80 * at, cachedTokens: 60 * at };
    history.add(
      [
        report(
          "a",
          { ...own, requests: 100 + at, deltas: 1_000 + 20 * at, firstTokens: after(100, at) },
          500 + 10 * at,
        ),
        report("b", { errors: at, requests: at, deltas: 30 * at, firstTokens: after(1_000, at) }, 15 * at),
      ],
      at * STEP_MS,
      1_000_000 + at * STEP_MS,
    );
  }
  expect(history.points("")).toHaveLength(1);
  const [point] = history.points("");
  expect(point).toMatchObject({ requestsPerSecond: 1, errorsPerSecond: 0.5, tokensPerSecond: 25 });
  expect(point).toMatchObject({ expectedShare: 0.8, cachedShare: 0.6, queued: 1, active: 2, cpuMsPerDelta: 0.5 });
  expect(point?.atMs).toBe(1_000_000 + POINT_MS);
  // The middle of the step that a time falls into is wrong by a fifth at most.
  expect((point?.p50Ms ?? 0) / 100).toBeCloseTo(1, 0);
  expect((point?.p95Ms ?? 0) / 1_000).toBeCloseTo(1, 0);
  expect(history.newest("")).toMatchObject({ spanMs: STEP_MS, requests: 2, deltas: 50 });
  expect(history.newest("m")).toMatchObject({ spanMs: STEP_MS, errors: 1 });
  expect(history.recentFirstTokens("m", SHARES)).toEqual([point?.p50Ms, point?.p95Ms]);
});

test("requests that were over before their model was known count in all together, and of no model", () => {
  const history = new FleetHistory();
  history.add([report("a", { requests: 1 }, 0, { requests: 5, errors: 2 })], 0, 1_000_000);
  history.add([report("a", { requests: 2 }, 0, { requests: 9, errors: 5 })], STEP_MS, 1_000_000 + STEP_MS);
  expect(history.newest("")).toMatchObject({ requests: 5, errors: 3 });
  expect(history.newest("m")).toMatchObject({ requests: 1, errors: 0 });
});

test("a model has points of its own, without the processor time that gateways tell of all", () => {
  const history = new FleetHistory();
  const both = (deltas: number, cpuMs: number): GatewayReport => {
    const one = report("a", { deltas, queued: 1 }, cpuMs);
    const [two] = report("a", { model: "n", deltas: 3 * deltas }).models;
    return { ...one, models: [...one.models, ...(two ? [two] : [])] };
  };
  history.add([both(0, 0)], 0, 0);
  history.add([both(10, 100)], POINT_MS, POINT_MS);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.tokensPerSecond)).toEqual([1, 3, 4]);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.queued)).toEqual([1, 0, 1]);
  expect(["m", "n", ""].map((model) => history.points(model)[0]?.cpuMsPerDelta)).toEqual([undefined, undefined, 2.5]);
  expect(history.points("other")).toEqual([]);
});

test("a gateway that comes, or was started anew, adds nothing that it did before", () => {
  const history = new FleetHistory();
  history.add([report("a", { requests: 1 })], 0, 0);
  history.add([report("a", { requests: 2 }), report("b", { requests: 9_000 })], STEP_MS, STEP_MS);
  expect(history.newest("").requests).toBe(1);
  history.add([report("a", { requests: 0 }), report("b", { requests: 9_001 })], 2 * STEP_MS, 2 * STEP_MS);
  expect(history.newest("").requests).toBe(1);
  history.add([report("b", { requests: 9_002 })], 3 * STEP_MS, 3 * STEP_MS);
  expect(history.newest("").requests).toBe(1);
});

test("it keeps an hour and forgets what is older, also of first tokens after a minute", () => {
  const history = new FleetHistory();
  history.add([report("a")], 0, 0);
  history.add([report("a", { firstTokens: after(50, 3) })], POINT_MS, POINT_MS);
  expect(history.recentFirstTokens("", SHARES)[0]).toBeGreaterThan(40);
  for (let at = 2; at <= 1_000; at += 1)
    history.add([report("a", { firstTokens: after(50, 3) })], at * POINT_MS, at * POINT_MS);
  expect(history.points("")).toHaveLength(360);
  expect(history.points("")[0]?.atMs).toBe(641 * POINT_MS);
  expect(history.recentFirstTokens("", SHARES)).toEqual([undefined, undefined]);
});
