import { seededRandom } from "../../support/seeded-random.ts";
import { percentile } from "../report.ts";
import type { RecordedArrivals } from "./arrival-trace.ts";
import { EventQueue } from "./event-queue.ts";
import { type EvictionOrder, PieceCaches, PieceStore } from "./piece-cache.ts";
import { RankedNode } from "./ranked-node.ts";
import { ReasonJudge } from "./reason-judge.ts";
import { cachedIn, type HeldTiers, type Job, type NodeUse } from "./replay-node.ts";
import type { Follower } from "./router.ts";
import { REPLAY_POLICIES, type ReplayPolicy } from "./routers.ts";
import { SessionTimes } from "./session-times.ts";
import type { RecordedSession } from "./session-trace.ts";
import { PlayedWorld, type Prompt, playArrivals, playUsers } from "./traffic.ts";
import { VllmNode } from "./vllm-node.ts";

export type ReplayResult = ReturnType<SessionTimes["byTurns"]> & {
  readonly answers: number;
  readonly hitRatio: number;
  readonly meanTtftMs: number;
  readonly p95TtftMs: number;
  readonly p99TtftMs: number;
  readonly prefillBusy: number;
  readonly maxLoad: number;
  /** The milliseconds per token of an answer, without its first token; of all answers. */
  readonly meanTokenMs: number;
  readonly p99TokenMs: number;
  readonly p50TtftMs: number;
  /** The milliseconds between two tokens of an answer; of all tokens. */
  readonly p50GapMs: number;
  readonly p95GapMs: number;
  readonly p99GapMs: number;
  /** The seconds that a session waited for its answers, without its pauses; of the sessions that ended. */
  readonly meanSessionS: number;
  readonly p99SessionS: number;
  /** The share of lost tokens with the true reason, warm-up included; NaN without reasons. */
  readonly trueReasons: number;
};

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);
}

/** The time of a hand-over, in milliseconds: calls and set-up, and each token of 61,464 bytes at 25 GB/s. */
const HAND_OVER_MS = 50;
const MOVED_TOKEN_MS = 61_464 / 25e6;

/** The times between tokens, of all tokens, to a tenth of a millisecond. */
class Gaps {
  readonly #tokens: number[] = [];

  add(tokens: number, gapMs: number): void {
    const at = Math.round(10 * gapMs);
    this.#tokens[at] = (this.#tokens[at] ?? 0) + tokens;
  }

  percentile(share: number): number {
    let left = share * this.#tokens.reduce((sum, tokens) => sum + tokens, 0);
    for (const [at, tokens = 0] of this.#tokens.entries()) {
      left -= tokens;
      if (left <= 0) return at / 10;
    }
    return Number.NaN;
  }
}

/** The interval of reports from a node without changes, in milliseconds. */
const REPORT_INTERVAL_MS = 500;
/** The delay of a report after a change, in milliseconds: the polling interval of a node's load. */
const REPORT_LAG_MS = 100;

export type Scenario = {
  readonly policy: ReplayPolicy;
  readonly sessions: readonly RecordedSession[];
  /** The users of each node, with one session after another. */
  readonly perNode: number;
  /** Requests at recorded times, in place of sessions. Default: none. */
  readonly arrivals?: RecordedArrivals | undefined;
  readonly nodes: number;
  /** The last of these, which only read prompts for the others. Default: none. */
  readonly prefillNodes?: number;
  /** The data-parallel ranks of a node, of which each has a cache. Default: 1. */
  readonly ranks?: number;
  readonly gateways: number;
  readonly cacheTokens: number;
  /** The conversations that each cache holds, in slots of equal size. Default: none, conversations share its tokens. */
  readonly slots?: number | undefined;
  /** The order in which a full cache drops prefixes. Default: `lru`. */
  readonly evict?: EvictionOrder | undefined;
  /** The host memory behind each cache, in tokens. Default: none. */
  readonly hostTokens?: number;
  readonly prefillsAtOnce: number;
  /** What nodes report: all, as those with llama.cpp in process, or only as much as nodes beside vLLM can. Default: all. */
  readonly nodesLike?: NodesLike;
  /** When the engines' KV events stop, in milliseconds. Default: never. */
  readonly eventsStopMs?: number | undefined;
  readonly warmUpMs: number;
  readonly untilMs: number;
  readonly seed: number;
};

export type NodesLike = "llama" | "vllm";

export async function replay(scenario: Scenario): Promise<ReplayResult> {
  const { policy, cacheTokens, hostTokens = 0, prefillsAtOnce, seed, warmUpMs, untilMs } = scenario;
  const { nodesLike = "llama", eventsStopMs, slots, evict } = scenario;
  const time = new EventQueue();
  const nowMs = () => time.nowMs();
  const store = new PieceStore();
  const world = new PlayedWorld(store);
  const pooled = policy === "oracle";
  // The oracle's nodes are all ranks, and share one cache.
  const { nodes: asked, ranks: wanted = 1 } = scenario;
  const [count, ranks] = pooled ? [asked * wanted, 1] : [asked, wanted];
  const [cacheCount, size] = pooled ? [1, count] : [count * ranks, 1];
  const caches = new PieceCaches(
    store,
    cacheCount,
    { tokens: size * cacheTokens, slots: slots && size * slots, evict },
    nowMs,
  );
  const lower = hostTokens > 0 ? new PieceCaches(store, cacheCount, { tokens: size * hostTokens }, nowMs) : undefined;
  const tiers = { caches, lower };
  const sendReport = (number: number) => {
    const report = (besideVllm[number] ?? nodes[number])?.report;
    if (report) for (const gateway of gateways) gateway.reported?.(number, report);
  };
  const changed = new Set<number>();
  const sendReportSoon = (number: number) => {
    if (changed.has(number)) return;
    changed.add(number);
    time.after(REPORT_LAG_MS, () => {
      changed.delete(number);
      sendReport(number);
    });
  };
  const gaps = new Gaps();
  const nodes: readonly RankedNode[] = Array.from({ length: count }, (_, node) => {
    const onChange = () => sendReportSoon(node);
    const onTokens = (tokens: number, gapMs: number) => {
      if (time.nowMs() >= warmUpMs) gaps.add(tokens, gapMs);
    };
    const own = { prefillsAtOnce, onChange, onTokens };
    return new RankedNode({ time, tiers, cache: pooled ? 0 : node * ranks, ...own }, ranks);
  });
  const ranksOf = (node: number) => Array.from({ length: ranks }, (_, rank) => node * ranks + rank);
  let held: HeldTiers = tiers;
  let retentionOf = (node: number) => nodes[node]?.report.retentionMs;
  if (eventsStopMs !== undefined)
    time.after(eventsStopMs, () => {
      held = { caches: caches.snapshot(), lower: lower?.snapshot() };
      const retentions = nodes.map(({ report }) => report.retentionMs);
      retentionOf = (node) => retentions[node];
    });
  const cachedTokens = (node: number, { last }: Prompt) =>
    Math.max(...ranksOf(node).map((cache) => cachedIn(held, cache, last).tokens));
  const eventsOf = (node: number) =>
    policy === "prefix_affinity_exact"
      ? { cachedTokens: (prompt: Prompt) => cachedTokens(node, prompt), retentionMs: () => retentionOf(node) }
      : undefined;
  const besideVllm =
    nodesLike === "llama" || pooled
      ? []
      : nodes.map((engine, node) => new VllmNode({ time, engine, events: eventsOf(node) }));
  const announced = { held: () => held, isAnnounced: (node: number) => besideVllm[node]?.isAnnounced ?? true };
  const random = seededRandom(seed + 2_000);
  // Host memory holds what the caches do, and more.
  const judge = new ReasonJudge(store, lower ?? caches);
  const fleet = { nodes, caches, ranks, slots, announced, prefillNodes: pooled ? 0 : (scenario.prefillNodes ?? 0) };
  const ofAll = { fleet, gateways: scenario.gateways, world, time, random, judge };
  const gateways = Array.from({ length: scenario.gateways }, (_, number) =>
    REPLAY_POLICIES[policy]({ ...ofAll, number }),
  );
  const [ttftsMs, tokensMs]: [number[], number[]] = [[], []];
  const sessionTimes = new SessionTimes();
  let [answers, promptTokens, cachedTokensOfAll] = [0, 0, 0];
  const entrance = seededRandom(seed + 3_000);

  const send = (prompt: Prompt, onAnswered: () => void) => {
    const arrivedMs = time.nowMs();
    let cached = 0;
    let firstTokenMs = 0;
    const served = caches.waits(prompt.affinityKey);
    /** Returns the job of the prompt, with a follower to which the node reports everything. */
    const jobOf = (follower?: Follower, isRead = false): Job => ({
      ...{ prompt, isRead },
      onStarted: (tokens) => {
        // Of a prompt that was read elsewhere, that node has found some.
        if (!isRead) cached = tokens;
        judge.started(prompt);
        follower?.started(tokens);
      },
      onProgress: (prefilledTokens) => follower?.progress?.(prefilledTokens),
      onFirstToken: () => {
        firstTokenMs = time.nowMs();
        served();
        if (firstTokenMs >= warmUpMs) {
          ttftsMs.push(firstTokenMs - arrivedMs);
          promptTokens += prompt.tokens;
          cachedTokensOfAll += cached;
        }
        follower?.firstToken();
      },
      onFinished: (prefillMs) => {
        if (time.nowMs() >= warmUpMs) {
          answers += 1;
          tokensMs.push((time.nowMs() - firstTokenMs) / Math.max(1, prompt.outputTokens));
        }
        // Requests at recorded times have conversations in place of sessions.
        sessionTimes.answered(scenario.arrivals ? prompt.affinityKey : prompt.session, time.nowMs() - arrivedMs);
        follower?.finished(prefillMs);
        onAnswered();
      },
    });
    const gateway = gateways[Math.floor(entrance() * gateways.length)];
    const submit = (node: number, of: (follower?: Follower) => Job, follower?: Follower) =>
      nodes[node]?.submit(besideVllm[node]?.followed(of(), follower) ?? of(follower));
    gateway?.send(prompt, (node, follower, reader) => {
      const answer = () => submit(node, (own) => jobOf(own, reader !== undefined), follower);
      if (!reader) return answer();
      const reading = (own?: Follower): Job => ({
        prompt: { ...prompt, outputTokens: 0 },
        onStarted: (tokens) => {
          cached = tokens;
          own?.started(tokens);
        },
        onProgress: (prefilledTokens) => own?.progress?.(prefilledTokens),
        onFirstToken: () => {
          own?.firstToken();
          time.after(HAND_OVER_MS + prompt.tokens * MOVED_TOKEN_MS, answer);
        },
        onFinished: (prefillMs) => own?.finished(prefillMs),
      });
      submit(reader.node, reading, reader.follower);
    });
  };
  const report = () => {
    for (const number of nodes.keys()) sendReport(number);
    time.after(REPORT_INTERVAL_MS, report);
  };
  report();
  const onEnded = (session: string) => sessionTimes.ended(session, time.nowMs() >= warmUpMs);
  const played = { world, time, seed, send, onEnded };
  if (scenario.arrivals) playArrivals(scenario.arrivals, played);
  else playUsers(scenario.sessions, scenario.perNode * asked, played);

  await time.runUntil(warmUpMs);
  const usesNow = () => nodes.flatMap(({ uses }) => uses);
  const before = usesNow();
  await time.runUntil(untilMs);
  const uses = usesNow();
  const since = (name: keyof NodeUse) => uses.map((use, rank) => use[name] - (before[rank]?.[name] ?? 0));
  const requestMs = since("requestMs");
  if (scenario.arrivals) sessionTimes.endAll();
  return {
    ...sessionTimes.byTurns(),
    answers,
    hitRatio: cachedTokensOfAll / promptTokens,
    meanTtftMs: mean(ttftsMs),
    p50TtftMs: percentile(ttftsMs, 0.5),
    p50GapMs: gaps.percentile(0.5),
    p95GapMs: gaps.percentile(0.95),
    p99GapMs: gaps.percentile(0.99),
    p95TtftMs: percentile(ttftsMs, 0.95),
    p99TtftMs: percentile(ttftsMs, 0.99),
    prefillBusy: mean(since("prefillMs")) / (untilMs - warmUpMs),
    maxLoad: Math.max(...requestMs) / mean(requestMs),
    meanTokenMs: mean(tokensMs),
    p99TokenMs: percentile(tokensMs, 0.99),
    meanSessionS: mean(sessionTimes.waitsMs()) / 1_000,
    p99SessionS: percentile(sessionTimes.waitsMs(), 0.99) / 1_000,
    trueReasons: judge.trueShare,
  };
}
