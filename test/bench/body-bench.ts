import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { needsTurns, nextTurn, type Steps } from "../../gateway/event-loop-turn.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import type { Format } from "../../gateway/formats/format.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { parsing } from "../../gateway/http/body/json-body.ts";
import { JsonScan } from "../../gateway/json/json-scan.ts";
import { estimateInputTokens } from "../../gateway/limits/input-estimate.ts";
import { promptShape } from "../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { DEFAULT_JSON_LIMITS } from "../support/gateway/default-settings.ts";
import { BENCH_CONTEXT } from "./format-context.ts";
import { agentBody } from "./load/agent-body.ts";
import type { BenchFormat } from "./processes/request-text.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { median } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

const SIZES: readonly (readonly [name: string, bytes: number])[] = [
  ["100 KB", 100_000],
  ["1 MB", 1_000_000],
  ["2 MB", 2_000_000],
  ["5 MB", 5_000_000],
];
/** The bytes that a socket brings at once. */
const CHUNK_BYTES = 64 * 1024;
const PREFIX_KEY = Buffer.alloc(32, 1);

/** What is done with a body, one after the other. */
const STAGES = ["scan", "parse", "prepare", "digest", "encode"] as const;
type Stage = (typeof STAGES)[number];

const FORMATS: Readonly<Record<BenchFormat, Format>> = { chat, messages, responses };
const BODIES_PER_ROUND = 5;
/** Time for the event loop to be seen as free again. */
const PAUSE_MS = 5;

/**
 * Measures what a body costs from its bytes to those of the canonical request, in the turns of the event loop that the
 * gateway takes for it, and how long the loop waits. It does no I/O.
 */
export async function bodyBench(settings: BenchSettings): Promise<BenchResult> {
  const rows: Row[] = [];
  for (const [size, bytes] of SIZES)
    for (const name of Object.keys(FORMATS) as BenchFormat[])
      rows.push({
        size,
        format: name,
        ...(await measure(FORMATS[name], agentBody(name, bytes), settings.repetitions)),
      });
  return {
    title: "body: bytes to canonical request",
    columns: [
      { key: "size", title: "size" },
      { key: "format", title: "format" },
      { key: "toJsonParse", title: "all to JSON.parse", digits: 2 },
      ...STAGES.map((stage) => ({ key: `${stage}Ms`, title: `${stage} ms`, digits: 2 })),
      { key: "longestMs", title: "longest ms", digits: 1 },
      { key: "longestIn", title: "in" },
      { key: "loopDelayP50Ms", title: "loop delay p50 ms", digits: 1 },
      { key: "loopDelayMaxMs", title: "max ms", digits: 1 },
    ],
    rows,
    notes: [
      "Scan: limits, chunk by chunk. Parse: UTF-8, JSON. Prepare: the format's checks and the translation.",
      "Digest: the boundaries of the prompt. Encode: the message to the engine. Longest: without the event loop's turn.",
      `All: scan, parse, prepare. JSON.parse: of the same text, alone. Median of ${settings.repetitions * BODIES_PER_ROUND} bodies.`,
    ],
  };
}

async function measure(format: Format, body: Buffer, repetitions: number): Promise<Row> {
  const handled: Handled[] = [];
  const jsonMs: number[] = [];
  const delaysMs: number[] = [];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  await handle(format, body);
  for (let count = 0; count < repetitions * BODIES_PER_ROUND; count += 1) {
    jsonMs.push(timeOfJsonParse(body));
    await sleep(PAUSE_MS);
    delay.reset();
    delay.enable();
    await sleep(PAUSE_MS);
    handled.push(await handle(format, body));
    await sleep(PAUSE_MS);
    delay.disable();
    delaysMs.push(delay.max / 1e6);
  }
  const stageMs = (stage: Stage) => median(handled.map(({ ms }) => ms[stage]));
  const byLength = handled.map(({ longest }) => longest).sort((one, two) => one.ms - two.ms);
  const longest = byLength[Math.floor(byLength.length / 2)];
  return {
    toJsonParse: (stageMs("scan") + stageMs("parse") + stageMs("prepare")) / median(jsonMs),
    ...Object.fromEntries(STAGES.map((stage) => [`${stage}Ms`, stageMs(stage)])),
    longestMs: longest?.ms ?? Number.NaN,
    longestIn: longest?.stage ?? "",
    loopDelayP50Ms: median(delaysMs),
    loopDelayMaxMs: Math.max(...delaysMs),
  };
}

type Handled = {
  readonly ms: Readonly<Record<Stage, number>>;
  /** The longest time without a turn of the event loop, and the stage that it ended in. */
  readonly longest: { readonly ms: number; readonly stage: Stage };
};

async function handle(format: Format, body: Buffer): Promise<Handled> {
  const ms: Record<Stage, number> = { scan: 0, parse: 0, prepare: 0, digest: 0, encode: 0 };
  let longest: Handled["longest"] = { ms: 0, stage: "scan" };
  let sinceTurnMs = 0;
  const timed = <T>(stage: Stage, work: () => T): T => {
    const startedMs = performance.now();
    const result = work();
    const tookMs = performance.now() - startedMs;
    ms[stage] += tookMs;
    sinceTurnMs += tookMs;
    if (sinceTurnMs > longest.ms) longest = { ms: sinceTurnMs, stage };
    return result;
  };
  const turn = async () => {
    await nextTurn();
    sinceTurnMs = 0;
  };
  const all = async <T>(stage: Stage, steps: Steps<T>): Promise<T> => {
    for (;;) {
      const step = timed(stage, () => steps.next());
      if (step.done) return step.value;
      if (needsTurns(body.length)) await turn();
    }
  };
  const scan = new JsonScan(["model", "messages", "stream", "max_tokens"], DEFAULT_JSON_LIMITS);
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; at += CHUNK_BYTES) {
    const chunk = body.subarray(at, at + CHUNK_BYTES);
    timed("scan", () => scan.feed(chunk));
    chunks.push(chunk);
    await turn();
  }
  const parsed = await all(
    "parse",
    parsing(
      timed("parse", () => Buffer.concat(chunks)),
      scan,
    ),
  );
  const { request } = timed("prepare", () => format.prepare(parsed, BENCH_CONTEXT));
  timed("prepare", () => estimateInputTokens(body.length, request.messages));
  if (needsTurns(body.length)) await turn();
  await all("digest", promptShape(request, PREFIX_KEY));
  if (needsTurns(body.length)) await turn();
  const generate = { ...request, requestId: "r", tenant: "t", priority: 0, stream: undefined };
  timed("encode", () => GenerateRequest.encode(generate).finish());
  return { ms, longest };
}

function timeOfJsonParse(body: Buffer): number {
  const startedMs = performance.now();
  JSON.parse(body.toString("utf8"));
  return performance.now() - startedMs;
}
