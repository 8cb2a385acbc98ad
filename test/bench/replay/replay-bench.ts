import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import type { BenchResult, Row } from "../report.ts";
import type { BenchSettings } from "../settings.ts";
import { readArrivals } from "./arrival-trace.ts";
import { type ReplayResult, replay } from "./replay.ts";
import type { ReplayPolicy } from "./routers.ts";
import { TURN_GROUPS } from "./session-times.ts";
import { readSessions } from "./session-trace.ts";

const SLICE = "test/bench/replay/trace/claude-code-sessions.jsonl.gz";
/** The measured period, in milliseconds. */
const STRETCH = { warmUpMs: 1_200_000, untilMs: 3_600_000 };
/** The time for the last answers to requests at recorded times, in milliseconds. */
const AFTER_ARRIVALS_MS = 600_000;
const GZIP = Buffer.from([0x1f, 0x8b]);

/**
 * Replays recorded sessions or requests of agents in virtual time, through the real admission and policies of other projects, for
 * the same nodes.
 */
export async function replayBench(settings: BenchSettings): Promise<BenchResult> {
  const text = await readTrace(settings.trace ?? join(projectFolder(), SLICE));
  const arrivals = text.slice(0, text.indexOf("\n")).includes('"hash_ids"') ? readArrivals(text) : undefined;
  const sessions = arrivals ? [] : readSessions(text);
  const untilMs = (arrivals?.arrivalsMs.at(-1) ?? 0) + AFTER_ARRIVALS_MS;
  const stretch = arrivals ? { warmUpMs: 0, untilMs } : STRETCH;
  const rows: Row[] = [];
  for (const perNode of arrivals ? [0] : settings.sessionsPerNode) {
    const load = arrivals ? "as recorded" : `${perNode} a node`;
    const run = async (policy: ReplayPolicy, gateways: number) => {
      const { nodes, ranks, cacheTokens, slots, evict, hostTokens, prefillsAtOnce, nodesLike, eventsStopAt } = settings;
      const eventsStopMs = eventsStopAt === undefined ? undefined : 60_000 * eventsStopAt;
      const caches = { cacheTokens, slots, evict, hostTokens };
      const { prefillNodes } = settings;
      const fleet = {
        policy,
        gateways,
        nodes,
        prefillNodes,
        ranks,
        ...caches,
        prefillsAtOnce,
        nodesLike,
        eventsStopMs,
      };
      const results: ReplayResult[] = [];
      for (const seed of settings.seed)
        results.push(await replay({ ...fleet, ...stretch, sessions, perNode, arrivals, seed }));
      return meanOf(results);
    };
    const oracle = await run("oracle", 1);
    rows.push(rowOf({ load, policy: "oracle", gateways: 1 }, oracle, oracle));
    for (const gateways of settings.gateways)
      for (const policy of settings.policies) {
        if (policy === "oracle") continue;
        rows.push(rowOf({ load, policy, gateways }, await run(policy, gateways), oracle));
      }
  }
  return {
    title: `replay: recorded sessions in front of ${settings.nodes} simulated nodes, ${settings.prefillNodes} of which only read`,
    columns: [
      { key: "load", title: "load" },
      { key: "policy", title: "policy" },
      { key: "gateways", title: "gateways", digits: 0 },
      { key: "hitsPercent", title: "hits %" },
      { key: "ofOraclePercent", title: "of oracle %" },
      { key: "uncachedToOracle", title: "uncached work", digits: 2 },
      { key: "ttftMeanS", title: "first token mean s", digits: 2 },
      { key: "ttftP50S", title: "p50 s", digits: 2 },
      { key: "ttftP95S", title: "p95 s" },
      { key: "ttftP99S", title: "p99 s" },
      { key: "busyPercent", title: "prefill busy %", digits: 0 },
      { key: "busiestToMean", title: "busiest node", digits: 2 },
      { key: "answers", title: "answers", digits: 0 },
      { key: "tokenMeanMs", title: "a token mean ms" },
      { key: "tokenP99Ms", title: "p99 ms" },
      { key: "gapP50Ms", title: "between tokens p50 ms" },
      { key: "gapP95Ms", title: "p95 ms" },
      { key: "gapP99Ms", title: "p99 ms" },
      { key: "sessionMeanS", title: "session mean s", digits: 0 },
      { key: "sessionP99S", title: "p99 s", digits: 0 },
      ...TURN_GROUPS.flatMap(({ key, title }) => [
        { key: `sessionP50S${key}`, title: `${title} p50 s`, digits: 0 },
        { key: `sessionP99S${key}`, title: "p99 s", digits: 0 },
      ]),
      { key: "trueReasonPercent", title: "true reason %" },
    ],
    rows,
    notes: [
      `Nodes of ${settings.ranks} ranks, with ${cacheNote(settings)}, evicted by ${settings.evict}, and ${settings.hostTokens / 1e6} M of host memory each, prompts that are prefilled at once: ${settings.prefillsAtOnce}. Means over the seeds ${settings.seed.join(", ")}.`,
      reportsNote(settings),
      "Uncached work: the share of prompt tokens that were prefilled, by the oracle's. Busiest node: requests on it over the mean of all.",
      "A token: the time of an answer behind its first token, by its tokens. A session: its seconds without pauses, if it ended in the period; of a file with recorded times, a conversation.",
      "True reason: of the prompt tokens that might have been cached and were not, those for which the gateway gave the true reason.",
      "The oracle has one cache as large as all together. llmd and prefix_affinity_exact know what nodes hold, prefix_affinity does not.",
    ],
  };
}

function cacheNote({ cacheTokens, slots }: BenchSettings): string {
  const tokens = `${cacheTokens / 1e6} M tokens of KV`;
  return slots === undefined ? tokens : `${tokens} in ${slots} slots`;
}

function reportsNote({ nodesLike, eventsStopAt }: BenchSettings): string {
  const reports =
    nodesLike === "vllm"
      ? "The nodes report what is known beside vLLM: polled counts, their own ledger and speed, and what KV events show"
      : "The nodes report all, as with llama.cpp in process, but no speed of their own";
  return eventsStopAt === undefined ? `${reports}.` : `${reports}. KV events stop at minute ${eventsStopAt}.`;
}

async function readTrace(file: string): Promise<string> {
  const bytes = await readFile(file);
  return (bytes.subarray(0, GZIP.length).equals(GZIP) ? gunzipSync(bytes) : bytes).toString();
}

function rowOf(
  cell: { readonly load: string; readonly policy: string; readonly gateways: number },
  result: ReplayResult,
  oracle: ReplayResult,
): Row {
  return {
    ...cell,
    hitsPercent: 100 * result.hitRatio,
    ofOraclePercent: (100 * result.hitRatio) / oracle.hitRatio,
    uncachedToOracle: (1 - result.hitRatio) / (1 - oracle.hitRatio),
    ttftMeanS: result.meanTtftMs / 1_000,
    ttftP50S: result.p50TtftMs / 1_000,
    gapP50Ms: result.p50GapMs,
    gapP95Ms: result.p95GapMs,
    gapP99Ms: result.p99GapMs,
    ttftP95S: result.p95TtftMs / 1_000,
    ttftP99S: result.p99TtftMs / 1_000,
    busyPercent: 100 * result.prefillBusy,
    busiestToMean: result.maxLoad,
    answers: result.answers,
    tokenMeanMs: result.meanTokenMs,
    tokenP99Ms: result.p99TokenMs,
    sessionMeanS: result.meanSessionS,
    sessionP99S: result.p99SessionS,
    ...byTurns(result),
    trueReasonPercent: 100 * result.trueReasons,
  };
}

function byTurns(result: ReplayResult): Row {
  const keys = TURN_GROUPS.flatMap(({ key }) => [`sessionP50S${key}`, `sessionP99S${key}`] as const);
  return Object.fromEntries(keys.map((key) => [key, result[key]]));
}

function meanOf(results: readonly ReplayResult[]): ReplayResult {
  const [first] = results;
  if (!first) throw new Error("there is no seed");
  const names = Object.keys(first) as (keyof ReplayResult)[];
  const mean = (name: keyof ReplayResult) => results.reduce((sum, result) => sum + result[name], 0) / results.length;
  return { ...first, ...Object.fromEntries(names.map((name) => [name, mean(name)])) };
}
