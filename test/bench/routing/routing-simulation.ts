import { AGENT_TRAFFIC, type AgentTraffic } from "./agent-session.ts";
import { type Scenario, type SimulationResult, simulate } from "./simulate.ts";

/** The traffic of the routing study: eight nodes, 40 minutes, of which the first ten do not count. */
const FULL = { nodes: 8, cacheTokensPerNode: 3_000_000, warmUpMs: 600_000, untilMs: 2_400_000 };
/** The seeds of the runs over which every number is a mean. */
const SEEDS = [1, 2, 3];

const POLICIES: readonly Scenario["policy"][] = [
  "oracle",
  "random",
  "round_robin",
  "least_request",
  "ring_hash",
  "prefix_affinity",
];

const TRAFFIC: readonly (readonly [name: string, change: Partial<AgentTraffic>])[] = [
  ["0.10 sessions/s", { sessionsPerSecond: 0.1 }],
  ["0.15 sessions/s", { sessionsPerSecond: 0.15 }],
  ["0.15 sessions/s, all callers share one cache key", { sessionsPerSecond: 0.15, sharedCacheKey: true }],
];

function main(): void {
  for (const [name, change] of TRAFFIC) {
    const traffic = { ...AGENT_TRAFFIC, ...change };
    console.log(`\n${name}`);
    console.log("policy           gateways  requests  hits     of oracle  TTFT mean  TTFT p95  max load");
    let oracle = 1;
    for (const gateways of [1, 4]) {
      for (const policy of POLICIES) {
        if (policy === "oracle" && gateways > 1) continue;
        const result = meanOf(SEEDS.map((seed) => simulate({ ...FULL, policy, traffic, gateways, seed })));
        if (policy === "oracle") oracle = result.hitRatio;
        console.log(
          [
            policy.padEnd(15),
            String(gateways).padStart(9),
            String(Math.round(result.requests)).padStart(9),
            percent(result.hitRatio).padStart(8),
            percent(result.hitRatio / oracle).padStart(10),
            seconds(result.meanTtftMs).padStart(10),
            seconds(result.p95TtftMs).padStart(9),
            result.maxLoad.toFixed(2).padStart(9),
          ].join(" "),
        );
      }
    }
  }
}

function meanOf(results: readonly SimulationResult[]): SimulationResult {
  const mean = (value: (result: SimulationResult) => number) =>
    results.reduce((sum, result) => sum + value(result), 0) / results.length;
  return {
    requests: mean(({ requests }) => requests),
    hitRatio: mean(({ hitRatio }) => hitRatio),
    meanTtftMs: mean(({ meanTtftMs }) => meanTtftMs),
    p95TtftMs: mean(({ p95TtftMs }) => p95TtftMs),
    maxLoad: mean(({ maxLoad }) => maxLoad),
  };
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`;
}

main();
