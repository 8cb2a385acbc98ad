import { seededRandom } from "../../support/seeded-random.ts";
import { EventQueue } from "./event-queue.ts";
import { PieceCaches } from "./piece-cache.ts";
import { PieceStore } from "./piece-store.ts";
import { PlayedWorld } from "./played-session.ts";
import type { Prompt } from "./prompt.ts";
import { ReasonJudge } from "./reason-judge.ts";
import type { RecordedSession } from "./recorded-session.ts";
import { ReplayNode } from "./replay-node.ts";
import { REPLAY_POLICIES, type ReplayPolicy } from "./replay-policies.ts";
import { ReplayRecord, type ReplayResult } from "./replay-result.ts";
import { playArrivals, playUsers } from "./traffic.ts";

/** The interval of reports from a node without changes, in milliseconds. */
const REPORT_INTERVAL_MS = 500;
/** The delay of a report after a change, in milliseconds: the polling interval of a node's load. */
const REPORT_LAG_MS = 100;

/** The traffic of a replay: sessions of sequential turns, or requests at recorded times. */
export type ReplayTraffic =
  | { readonly kind: "sessions"; readonly sessions: readonly RecordedSession[]; readonly perNode: number }
  | { readonly kind: "arrivals"; readonly requests: RecordedSession; readonly arrivalsMs: readonly number[] };

export type Scenario = {
  readonly policy: ReplayPolicy;
  readonly traffic: ReplayTraffic;
  readonly nodes: number;
  /** Gateways that share no state; every request goes to a random one. */
  readonly gateways: number;
  readonly cacheTokens: number;
  /** The maximum concurrent prefills of a node. */
  readonly prefillsAtOnce: number;
  readonly warmUpMs: number;
  /** The end, warm-up included. */
  readonly untilMs: number;
  readonly seed: number;
};

/** Replays recorded traffic in virtual time. */
export async function replay(scenario: Scenario): Promise<ReplayResult> {
  const { policy, nodes: count, cacheTokens, prefillsAtOnce, seed, traffic, warmUpMs, untilMs } = scenario;
  const time = new EventQueue();
  const nowMs = () => time.nowMs();
  const store = new PieceStore();
  const world = new PlayedWorld(store);
  const pooled = policy === "oracle";
  const caches = new PieceCaches(store, pooled ? 1 : count, pooled ? count * cacheTokens : cacheTokens, nowMs);
  const tell = (number: number) => {
    const node = nodes[number];
    if (node) for (const gateway of gateways) gateway.reported?.(number, node.report);
  };
  const changed = new Set<number>();
  const tellSoon = (number: number) => {
    if (changed.has(number)) return;
    changed.add(number);
    time.after(REPORT_LAG_MS, () => {
      changed.delete(number);
      tell(number);
    });
  };
  const nodes: readonly ReplayNode[] = Array.from(
    { length: count },
    (_, node) =>
      new ReplayNode({
        ...{ time, caches, cache: pooled ? 0 : node, prefillsAtOnce },
        onChange: () => tellSoon(node),
      }),
  );
  const random = seededRandom(seed + 2_000);
  const judge = new ReasonJudge(store, caches);
  const ofAll = { fleet: { nodes, caches }, gateways: scenario.gateways, world, time, random, judge };
  const gateways = Array.from({ length: scenario.gateways }, (_, number) =>
    REPLAY_POLICIES[policy]({ ...ofAll, number }),
  );
  const record = new ReplayRecord(time, warmUpMs);
  const entrance = seededRandom(seed + 3_000);

  const send = (prompt: Prompt, onAnswered: () => void) => {
    const turn = record.arrived(prompt);
    const gateway = gateways[Math.floor(entrance() * gateways.length)];
    gateway?.send(prompt, (node, follower) =>
      nodes[node]?.submit({
        prompt,
        onStarted: (cachedTokens) => {
          turn.started(cachedTokens);
          follower?.started(cachedTokens);
        },
        onShare: turn.served,
        onProgress: (prefilledTokens) => follower?.progress?.(prefilledTokens),
        onFirstToken: () => {
          turn.firstToken();
          follower?.firstToken();
        },
        onFinished: (prefillMs) => {
          turn.finished();
          follower?.finished(prefillMs);
          onAnswered();
        },
      }),
    );
  };
  const report = () => {
    for (const number of nodes.keys()) tell(number);
    time.after(REPORT_INTERVAL_MS, report);
  };
  report();
  const played = { world, time, seed, send };
  if (traffic.kind === "sessions") playUsers(traffic.sessions, traffic.perNode * count, played);
  else playArrivals(traffic.requests, traffic.arrivalsMs, played);

  await time.settleUntil(warmUpMs);
  const before = nodes.map(({ use }) => use);
  await time.settleUntil(untilMs);
  return record.result(
    nodes.map(({ use }, node) => ({
      requestMs: use.requestMs - (before[node]?.requestMs ?? 0),
      prefillMs: use.prefillMs - (before[node]?.prefillMs ?? 0),
    })),
    judge.trueShare,
  );
}
