import { setMaxListeners } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type AgentHabits, callLikeAgents, type Turn } from "./load/agent-caller.ts";
import { DEMONSTRATION, type NodeFleetOptions, SIMULATED, startNodeFleet } from "./processes/node-fleet.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianOf, medianRatio, type Rounds } from "./report/compare.ts";
import { percentile } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

const NODES = 4;
const CALLERS = 12;
const HABITS: AgentHabits = { agents: 3, headTokens: 6_000, turns: 16, turnTokens: 500, meanThinkMs: 400 };
/**
 * The demonstration model accepts prompts of a few thousand tokens, needs twice as many tokens for the agents' text as
 * a simulated one, and does not always end its answers.
 */
const SMALL_HABITS: AgentHabits = {
  ...{ agents: 2, headTokens: 500, turns: 6, turnTokens: 60, meanThinkMs: 400 },
  maxAnswerTokens: 48,
};
const LLAMA = "prefix_affinity, 3 llama.cpp nodes";
const QUICK = ["least_request", "prefix_affinity"];

type Fleet = Pick<NodeFleetOptions, "nodes" | "backend"> & {
  readonly cluster: object;
  readonly habits: AgentHabits;
  readonly callers: number;
};

const simulated = (lbPolicy: string): Fleet => ({
  ...{ nodes: NODES, backend: SIMULATED, cluster: { lbPolicy }, habits: HABITS, callers: CALLERS },
});
const FLEETS: Readonly<Record<string, Fleet>> = {
  least_request: simulated("least_request"),
  round_robin: simulated("round_robin"),
  prefix_affinity: simulated("prefix_affinity"),
  [LLAMA]: {
    ...{ nodes: 3, backend: DEMONSTRATION, cluster: { lbPolicy: "prefix_affinity" } },
    ...{ habits: SMALL_HABITS, callers: 4 },
  },
};
/**
 * The tolerated difference between expected and actual cached tokens: a block of the simulated cache, and one percent
 * of the prompt, because a gateway without prefix reports counts bytes. `CacheLedger` tolerates the same.
 */
const TOLERATED = { tokens: 64, share: 0.01 };
/** The effect of lost prefixes shows only with long prompts. */
const LENGTH_FACTOR = 5;
/** The share of a measurement at its start that is not counted, while caches are empty. */
const WARM_UP = 0.3;

type Measured = {
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly hitRatio: number;
  /** Generations of the busiest node over the mean. */
  readonly busiest: number;
  readonly turns: number;
  /** The share of turns with the cached tokens that the gateway expected. */
  readonly agreed: number;
  /** The shares of turns with fewer cached tokens than expected, with more, and without a report. */
  readonly fewer: number;
  readonly more: number;
  readonly untold: number;
};

/** Runs agents against a fleet of simulated nodes, and measures the time to the first token by policy. */
export async function fleetBench(settings: BenchSettings): Promise<BenchResult> {
  const policies = settings.quick ? QUICK : Object.keys(FLEETS);
  const rounds: Rounds<Measured> = await measureAll(policies, settings);
  const rows = policies.map(
    (policy): Row => ({
      policy,
      ratio: medianRatio(rounds, policy, "least_request", ({ meanMs }) => meanMs),
      p95Ratio: medianRatio(rounds, policy, "least_request", ({ p95Ms }) => p95Ms),
      hits: medianOf(rounds, policy, ({ hitRatio }) => 100 * hitRatio),
      busiest: medianOf(rounds, policy, ({ busiest }) => busiest),
      meanMs: medianOf(rounds, policy, ({ meanMs }) => meanMs),
      p50Ms: medianOf(rounds, policy, ({ p50Ms }) => p50Ms),
      p95Ms: medianOf(rounds, policy, ({ p95Ms }) => p95Ms),
      turns: medianOf(rounds, policy, ({ turns }) => turns),
      agreed: medianOf(rounds, policy, ({ agreed }) => 100 * agreed),
      fewer: medianOf(rounds, policy, ({ fewer }) => 100 * fewer),
      more: medianOf(rounds, policy, ({ more }) => 100 * more),
      untold: medianOf(rounds, policy, ({ untold }) => 100 * untold),
    }),
  );
  return {
    title: `fleet: time to first token, ${CALLERS} agents against ${NODES} simulated nodes`,
    columns: [
      { key: "policy", title: "policy" },
      { key: "ratio", title: "mean to least_request", digits: 2 },
      { key: "p95Ratio", title: "p95", digits: 2 },
      { key: "hits", title: "% cached" },
      { key: "busiest", title: "busiest node", digits: 2 },
      { key: "meanMs", title: "mean ms", digits: 0 },
      { key: "p50Ms", title: "p50 ms", digits: 0 },
      { key: "p95Ms", title: "p95 ms", digits: 0 },
      { key: "turns", title: "turns", digits: 0 },
      { key: "agreed", title: "% as expected", digits: 1 },
      { key: "fewer", title: "% fewer", digits: 1 },
      { key: "more", title: "% more", digits: 1 },
      { key: "untold", title: "% not told", digits: 1 },
    ],
    rows,
    notes: [
      "Cached: share of the prompt tokens that the nodes report as cached. Busiest node: its generations over the mean.",
      `As expected: share of the turns whose cached tokens were those that the gateway expected, but for ${TOLERATED.tokens} and ${100 * TOLERATED.share} % of the prompt; fewer, more, or not told in time by the header.`,
      "Callers wait for their answers: a policy that makes them wait gets fewer turns, and is asked less.",
      `Median of ${rounds.length} interleaved rounds, each with fresh processes.`,
    ],
  };
}

async function measureAll(
  policies: readonly string[],
  { repetitions, seconds }: BenchSettings,
): Promise<Rounds<Measured>> {
  const folder = await mkdtemp(join(tmpdir(), "svc-bench-fleet-"));
  try {
    const rounds: Map<string, Measured>[] = [];
    for (let round = 0; round < repetitions; round += 1) {
      const measured = new Map<string, Measured>();
      for (const policy of policies)
        measured.set(
          policy,
          await measure(policy, seconds * LENGTH_FACTOR * 1_000, join(folder, `${policies.indexOf(policy)}-${round}`)),
        );
      rounds.push(measured);
    }
    return rounds;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(policy: string, lengthMs: number, folder: string): Promise<Measured> {
  const wanted = FLEETS[policy];
  if (!wanted) throw new Error(`there is no fleet ${policy}`);
  const { habits, callers: count } = wanted;
  const fleet = await startNodeFleet(wanted, folder);
  try {
    const stop = new AbortController();
    // Each caller adds a listener while it thinks.
    setMaxListeners(count, stop.signal);
    const turns: Turn[] = [];
    const countFromMs = performance.now() + WARM_UP * lengthMs;
    const callers = Array.from({ length: count }, (_, caller) =>
      callLikeAgents(
        fleet.gateway,
        habits,
        caller,
        (turn) => {
          if (turn.sentAtMs >= countFromMs) turns.push(turn);
        },
        stop.signal,
      ),
    );
    const allEnded = Promise.all(callers);
    await Promise.race([sleep(lengthMs), allEnded]);
    stop.abort();
    await allEnded;
    return summaryOf(turns, await fleet.generations());
  } finally {
    await fleet.stop();
  }
}

/** Returns the cached tokens beyond those expected; 0 within the tolerance, NaN without a report. */
function unexpected({ expectedTokens, cachedTokens, promptTokens }: Turn): number {
  const more = cachedTokens - expectedTokens;
  return Math.abs(more) <= TOLERATED.tokens + TOLERATED.share * promptTokens ? 0 : more;
}

function summaryOf(turns: readonly Turn[], generations: readonly number[]): Measured {
  const timesMs = turns.map(({ firstTokenMs }) => firstTokenMs);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const differences = turns.map(unexpected);
  const share = (matches: (more: number) => boolean) => differences.filter(matches).length / turns.length;
  return {
    meanMs: sum(timesMs) / timesMs.length,
    p50Ms: percentile(timesMs, 0.5),
    p95Ms: percentile(timesMs, 0.95),
    hitRatio: sum(turns.map(({ cachedTokens }) => cachedTokens)) / sum(turns.map(({ promptTokens }) => promptTokens)),
    busiest: Math.max(...generations) / (sum(generations) / generations.length),
    turns: turns.length,
    agreed: share((more) => more === 0),
    fewer: share((more) => more < 0),
    more: share((more) => more > 0),
    untold: share(Number.isNaN),
  };
}
