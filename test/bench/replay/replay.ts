import { EventQueue } from "../routing/event-queue.ts";
import { seededRandom } from "../routing/seeded-random.ts";
import { PieceCaches } from "./piece-cache.ts";
import { PieceStore } from "./piece-store.ts";
import { PlayedWorld } from "./played-session.ts";
import type { Prompt } from "./prompt.ts";
import type { RecordedSession } from "./recorded-session.ts";
import { ReplayNode } from "./replay-node.ts";
import { REPLAY_POLICIES, type ReplayPolicy } from "./replay-policies.ts";
import { ReplayRecord, type ReplayResult } from "./replay-result.ts";
import { playArrivals, playUsers } from "./traffic.ts";

const REPORT_INTERVAL_MS = 1_000;

/** The traffic of a replay: sessions whose turns wait for each other, or requests that come at their own times. */
export type ReplayTraffic =
  | { readonly kind: "sessions"; readonly sessions: readonly RecordedSession[]; readonly perNode: number }
  | { readonly kind: "arrivals"; readonly requests: RecordedSession; readonly arrivalsMs: readonly number[] };

/** What is replayed, in front of which nodes. */
export type Scenario = {
  readonly policy: ReplayPolicy;
  readonly traffic: ReplayTraffic;
  readonly nodes: number;
  /** Gateways that share nothing; every request comes in at any of them. */
  readonly gateways: number;
  /** The tokens that the KV cache of a node holds. */
  readonly cacheTokens: number;
  /** The begin of what is counted. */
  readonly warmUpMs: number;
  /** The end, warm-up included. */
  readonly untilMs: number;
  readonly seed: number;
};

/** Replays recorded traffic in virtual time. */
export async function replay(scenario: Scenario): Promise<ReplayResult> {
  const { policy, nodes: count, cacheTokens, seed, traffic, warmUpMs, untilMs } = scenario;
  const time = new EventQueue();
  const nowMs = () => time.nowMs();
  const store = new PieceStore();
  const world = new PlayedWorld(store);
  const pooled = policy === "oracle";
  const caches = new PieceCaches(store, pooled ? 1 : count, pooled ? count * cacheTokens : cacheTokens, nowMs);
  const nodes = Array.from({ length: count }, (_, node) => new ReplayNode(time, caches, pooled ? 0 : node));
  const random = seededRandom(seed + 2_000);
  const gateways = Array.from({ length: scenario.gateways }, () =>
    REPLAY_POLICIES[policy]({ fleet: { nodes, caches }, world, time, random }),
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
    const reports = nodes.map((node) => node.report);
    for (const gateway of gateways) gateway.reported?.(reports);
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
  );
}
