import { beforeAll, describe, expect, test } from "vitest";
import { AGENT_TRAFFIC } from "../../../../../../bench/routing/agent-session.ts";
import { type Scenario, type SimulationResult, simulate } from "../../../../../../bench/routing/simulate.ts";

/** A shorter run than the benchmark's, with somewhat shorter sessions, so that it is in full swing early. */
const SMALL = { nodes: 8, cacheTokensPerNode: 3_000_000, warmUpMs: 300_000, untilMs: 1_200_000, seed: 1 };
const TRAFFIC = { ...AGENT_TRAFFIC, sessionsPerSecond: 0.15, meanTurns: 30 };

const TIMEOUT_MS = 60_000;

const run = (policy: Scenario["policy"], gateways: number, sharedCacheKey = false) =>
  simulate({ ...SMALL, policy, gateways, traffic: { ...TRAFFIC, sharedCacheKey } });

describe("on simulated agent sessions, prefix affinity", { timeout: TIMEOUT_MS }, () => {
  let oracle: SimulationResult;
  let affinity: SimulationResult;

  beforeAll(() => {
    oracle = run("oracle", 1);
    affinity = run("prefix_affinity", 1);
  }, TIMEOUT_MS);

  test.each([
    ["one gateway", 1, false],
    ["four gateways that share nothing", 4, false],
    ["one gateway, all callers with the same cache key", 1, true],
    ["four gateways, all callers with the same cache key", 4, true],
  ])(
    "comes within five percent of the oracle's hits, no node above 1.5 times the mean load: %s",
    (_, gateways, shared) => {
      const result = run("prefix_affinity", gateways, shared);
      expect(result.requests).toBeGreaterThan(1_000);
      expect(result.hitRatio).toBeGreaterThan(oracle.hitRatio * 0.95);
      expect(result.maxLoad).toBeLessThan(1.5);
    },
  );

  test.each(["least_request", "round_robin", "random"] as const)("answers sooner and hits more than %s", (policy) => {
    const blind = run(policy, 1);
    expect(affinity.meanTtftMs).toBeLessThan(blind.meanTtftMs / 2);
    expect(affinity.hitRatio).toBeGreaterThan(blind.hitRatio + 0.2);
  });

  test("does not break down where all callers share a key, as hashing by key does", () => {
    expect(run("prefix_affinity", 1, true).meanTtftMs).toBeLessThan(run("ring_hash", 1, true).meanTtftMs / 4);
  });

  test("is the same in every run of the same seed", () => {
    expect(run("prefix_affinity", 1)).toEqual(affinity);
  });
});
