import { setMaxListeners } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hasDelta, textOf } from "../support/http/answer-check.ts";
import { readBody } from "../support/http/read-until.ts";
import { parseSse } from "../support/http/sse-reader.ts";
import { valueAt } from "../support/http/value-at.ts";
import { exponential, seededRandom } from "../support/seeded-random.ts";
import {
  type BenchGateway,
  DEMONSTRATION,
  type NodeFleetOptions,
  SIMULATED,
  startNodeFleet,
} from "./processes/programs.ts";
import { type BenchResult, inFolder, medianOf, medianRatio, percentile, type Rounds, type Row } from "./report.ts";
import type { BenchSettings } from "./settings.ts";

const CHAT = "/v1/chat/completions";
const CHARACTERS_PER_TOKEN = 4;

type AgentHabits = {
  readonly agents: number;
  readonly headTokens: number;
  readonly turns: number;
  readonly turnTokens: number;
  /** The mean time between two turns, in milliseconds. */
  readonly meanThinkMs: number;
  /** The maximum tokens of an answer. Default: the model's own end. */
  readonly maxAnswerTokens?: number;
};

type Turn = {
  readonly sentAtMs: number;
  readonly firstTokenMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** The cached prompt tokens that the gateway expected when it sent the request; NaN if it reported none. */
  readonly expectedTokens: number;
};

type Message = { readonly role: "system" | "user" | "assistant"; readonly content: string };
/** Calls as an agent does: successive sessions of growing prompts, one call at a time, without a cache key. */
async function callLikeAgents(
  gateway: BenchGateway,
  habits: AgentHabits,
  seed: number,
  onTurn: (turn: Turn) => void,
  signal: AbortSignal,
): Promise<void> {
  const chance = seededRandom(seed);
  for (let session = 0; !signal.aborted; session += 1) {
    const agent = Math.floor(chance() * habits.agents);
    const messages: Message[] = [
      { role: "system", content: filler(`agent ${agent}`, habits.headTokens) },
      { role: "user", content: filler(`caller ${seed} session ${session}`, habits.turnTokens) },
    ];
    for (let turn = 0; turn < habits.turns && !signal.aborted; turn += 1) {
      const { text, ...seen } = await ask(gateway, messages, habits.maxAnswerTokens);
      onTurn(seen);
      const tokens = exponential(habits.turnTokens, chance);
      messages.push({ role: "assistant", content: text }, { role: "user", content: filler(`result ${turn}`, tokens) });
      await sleep(exponential(habits.meanThinkMs, chance), undefined, { signal }).catch(() => {});
    }
  }
}

function filler(name: string, tokens: number): string {
  const line = `${name}: the quick brown fox jumps over the lazy dog. `;
  const characters = Math.max(CHARACTERS_PER_TOKEN, Math.round(tokens * CHARACTERS_PER_TOKEN));
  return line.repeat(Math.ceil(characters / line.length)).slice(0, Math.max(characters, name.length));
}

async function ask(
  gateway: BenchGateway,
  messages: readonly Message[],
  maxTokens: number | undefined,
): Promise<Turn & { readonly text: string }> {
  const options = { stream: true, stream_options: { include_usage: true }, max_tokens: maxTokens };
  const body = { model: "svc-qwen", ...options, messages };
  const sentAtMs = performance.now();
  const response = await fetch(`http://127.0.0.1:${gateway.port}${CHAT}`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  const reader = readBody(response);
  let firstTokenMs = Number.NaN;
  await reader
    .until((said) => hasDelta(CHAT, said))
    .then(() => {
      firstTokenMs = performance.now() - sentAtMs;
    })
    .catch(() => {});
  const stream = await reader.toEnd();
  const usage = parseSse(stream)
    .map(({ data }) => valueAt(data, "usage"))
    .find((found) => found);
  if (!usage) throw new Error("the answer ended without its usage");
  return {
    ...{ text: textOf(CHAT, stream), sentAtMs, firstTokenMs },
    promptTokens: Number(valueAt(usage, "prompt_tokens")),
    cachedTokens: Number(valueAt(usage, "prompt_tokens_details", "cached_tokens") ?? 0),
    expectedTokens: Number(/expected=(\d+)/.exec(response.headers.get("x-svc-cache") ?? "")?.[1]),
  };
}

const NODES = 4;
const CALLERS = 12;
const HABITS: AgentHabits = { agents: 3, headTokens: 6_000, turns: 16, turnTokens: 500, meanThinkMs: 400 };
/** The demonstration model takes prompts of a few thousand tokens, and does not always end its answers. */
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
/** As in `CacheReasons`: a block of the simulated cache, and one percent of the prompt, as gateways count bytes. */
const TOLERATED = { tokens: 64, share: 0.01 };
/** The effect of lost prefixes shows only with long prompts. */
const LENGTH_FACTOR = 5;
const WARM_UP = 0.3;

type Measured = {
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly hitRatio: number;
  readonly busiest: number;
  readonly turns: number;
  readonly agreed: number;
};

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

function measureAll(policies: readonly string[], { repetitions, seconds }: BenchSettings): Promise<Rounds<Measured>> {
  return inFolder("fleet", async (folder) => {
    const rounds: Map<string, Measured>[] = [];
    for (let round = 0; round < repetitions; round += 1) {
      const measured = new Map<string, Measured>();
      for (const [at, policy] of policies.entries())
        measured.set(policy, await measure(policy, seconds * LENGTH_FACTOR * 1_000, join(folder, `${at}-${round}`)));
      rounds.push(measured);
    }
    return rounds;
  });
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

function isAsExpected({ expectedTokens, cachedTokens, promptTokens }: Turn): boolean {
  return Math.abs(cachedTokens - expectedTokens) <= TOLERATED.tokens + TOLERATED.share * promptTokens;
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
