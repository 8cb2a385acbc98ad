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
/** The demonstration model reads prompts of a few thousand tokens at most. */
const SMALL_HABITS: AgentHabits = { agents: 2, headTokens: 500, turns: 6, turnTokens: 80, meanThinkMs: 400 };
const SILENT = "prefix_affinity, told nothing";
const LLAMA = "prefix_affinity, 3 llama.cpp nodes";
const QUICK = ["least_request", "prefix_affinity", SILENT];

type Fleet = Pick<NodeFleetOptions, "nodes" | "backend"> & {
  readonly cluster: object;
  readonly habits: AgentHabits;
  readonly callers: number;
};

const simulated = (lbPolicy: string, more = {}): Fleet => ({
  ...{ nodes: NODES, backend: SIMULATED, cluster: { lbPolicy, ...more }, habits: HABITS, callers: CALLERS },
});
/** The fleets by the names of their rows. */
const FLEETS: Readonly<Record<string, Fleet>> = {
  least_request: simulated("least_request"),
  round_robin: simulated("round_robin"),
  ring_hash: simulated("ring_hash"),
  prefix_affinity: simulated("prefix_affinity"),
  [SILENT]: simulated("prefix_affinity", { prefixEvents: false }),
  [LLAMA]: {
    ...{ nodes: 3, backend: DEMONSTRATION, cluster: { lbPolicy: "prefix_affinity" } },
    ...{ habits: SMALL_HABITS, callers: 4 },
  },
};
/**
 * How far what was expected in a cache may be from what was there: a block of the simulated cache, and a hundredth of the
 * prompt, as a gateway that is told nothing knows of beginnings only how many bytes they have. It is what the gateway's own
 * ledger (`CacheLedger`) takes for no loss.
 */
const TOLERATED = { tokens: 64, share: 0.01 };
/** A policy that loses its prefixes shows it only when the prompts have grown. */
const LENGTH_FACTOR = 5;
/** Share of a stretch at its start that does not count, while nothing is cached yet. */
const WARM_UP = 0.3;

type Measured = {
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly hitRatio: number;
  /** Generations of the busiest node over the mean. */
  readonly busiest: number;
  readonly turns: number;
  /** Share of the turns in which the cached tokens were those that the gateway expected. */
  readonly agreed: number;
};

/** Lets agents call a fleet of simulated nodes, and measures what each policy makes of the time to the first token. */
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
    ],
    rows,
    notes: [
      "Cached: share of the prompt tokens that the nodes report as cached. Busiest node: its generations over the mean.",
      `As expected: share of the turns whose cached tokens were those that the gateway expected, but for ${TOLERATED.tokens} and ${100 * TOLERATED.share} % of the prompt.`,
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
    // Each caller listens while it thinks.
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

function isAsExpected({ expectedTokens, cachedTokens, promptTokens }: Turn): boolean {
  return Math.abs(expectedTokens - cachedTokens) <= TOLERATED.tokens + TOLERATED.share * promptTokens;
}

function summaryOf(turns: readonly Turn[], generations: readonly number[]): Measured {
  const timesMs = turns.map(({ firstTokenMs }) => firstTokenMs);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return {
    meanMs: sum(timesMs) / timesMs.length,
    p50Ms: percentile(timesMs, 0.5),
    p95Ms: percentile(timesMs, 0.95),
    hitRatio: sum(turns.map(({ cachedTokens }) => cachedTokens)) / sum(turns.map(({ promptTokens }) => promptTokens)),
    busiest: Math.max(...generations) / (sum(generations) / generations.length),
    turns: turns.length,
    agreed: turns.filter(isAsExpected).length / turns.length,
  };
}
