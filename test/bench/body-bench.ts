import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../deploy/runtime/time/clock.ts";
import { DEFAULT_CATALOG } from "../../gateway/catalog.ts";
import { chat } from "../../gateway/formats/chat/request.ts";
import type { Format } from "../../gateway/formats/format.ts";
import { messages } from "../../gateway/formats/messages/request.ts";
import { responses } from "../../gateway/formats/responses/request.ts";
import { parseBody } from "../../gateway/json/json-body.ts";
import { JsonScan } from "../../gateway/json/json-scan.ts";
import { estimateInputTokens } from "../../gateway/limits/input-estimate.ts";
import { Sealing } from "../../gateway/sealing/sealing.ts";
import { Translator } from "../../gateway/translation/translator.ts";
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
const SINGLE_KEYS = ["model", "messages", "stream", "max_tokens"];

/** What is done with a body, one after the other. */
const STAGES = ["scan", "parse", "prepare", "digest", "encode"] as const;
type Stage = (typeof STAGES)[number];

const FORMATS: Readonly<Record<BenchFormat, Format>> = { chat, messages, responses };
const BODIES_PER_ROUND = 5;
/** Time for the event loop to be seen as free again. */
const PAUSE_MS = 5;

/**
 * Measures what a body costs from its bytes to those of the canonical request, stage by stage, and how long the event loop
 * waits when the gateway has it done. It does no I/O.
 */
export async function bodyBench(settings: BenchSettings): Promise<BenchResult> {
  const rows: Row[] = [];
  const translator = new Translator({
    ...{ sealing: new Sealing(), acceptsImages: () => true, promptBounds: () => [] },
    ...{ settings: BENCH_CONTEXT.settings },
    ...{ catalog: DEFAULT_CATALOG, limits: DEFAULT_JSON_LIMITS, clock: systemClock, onFault: () => {} },
  });
  for (const [size, bytes] of SIZES)
    for (const name of Object.keys(FORMATS) as BenchFormat[])
      rows.push({
        size,
        format: name,
        ...(await measure(FORMATS[name], agentBody(name, bytes), settings.repetitions, translator)),
      });
  await translator.close();
  return {
    title: "body: bytes to canonical request",
    columns: [
      { key: "size", title: "size" },
      { key: "format", title: "format" },
      { key: "toJsonParse", title: "all to JSON.parse", digits: 2 },
      ...STAGES.map((stage) => ({ key: `${stage}Ms`, title: `${stage} ms`, digits: 2 })),
      { key: "wholeMs", title: "as the gateway ms", digits: 2 },
      { key: "loopDelayP50Ms", title: "loop delay p50 ms", digits: 1 },
      { key: "loopDelayMaxMs", title: "max ms", digits: 1 },
    ],
    rows,
    notes: [
      "Scan: limits, chunk by chunk. Parse: UTF-8, JSON. Prepare: the format's checks and the translation.",
      "Digest: the boundaries of the prompt. Encode: the message to the engine. As the gateway: all of it, on a thread where the body is big.",
      `All: scan, parse, prepare. JSON.parse: of the same text, alone. Median of ${settings.repetitions * BODIES_PER_ROUND} bodies.`,
    ],
  };
}

async function measure(format: Format, body: Buffer, repetitions: number, translator: Translator): Promise<Row> {
  const handled: Readonly<Record<Stage, number>>[] = [];
  const jsonMs: number[] = [];
  const wholeMs: number[] = [];
  const delaysMs: number[] = [];
  const delay = monitorEventLoopDelay({ resolution: 1 });
  handle(format, body);
  await translated(translator, format, body);
  for (let count = 0; count < repetitions * BODIES_PER_ROUND; count += 1) {
    jsonMs.push(timeOfJsonParse(body));
    handled.push(handle(format, body));
    await sleep(PAUSE_MS);
    delay.reset();
    delay.enable();
    await sleep(PAUSE_MS);
    wholeMs.push(await translated(translator, format, body));
    await sleep(PAUSE_MS);
    delay.disable();
    delaysMs.push(delay.max / 1e6);
  }
  const stageMs = (stage: Stage) => median(handled.map((ms) => ms[stage]));
  return {
    toJsonParse: (stageMs("scan") + stageMs("parse") + stageMs("prepare")) / median(jsonMs),
    ...Object.fromEntries(STAGES.map((stage) => [`${stage}Ms`, stageMs(stage)])),
    wholeMs: median(wholeMs),
    loopDelayP50Ms: median(delaysMs),
    loopDelayMaxMs: Math.max(...delaysMs),
  };
}

/** Does all that a body takes, one stage after the other. */
function handle(format: Format, body: Buffer): Readonly<Record<Stage, number>> {
  const ms: Record<Stage, number> = { scan: 0, parse: 0, prepare: 0, digest: 0, encode: 0 };
  const timed = <T>(stage: Stage, work: () => T): T => {
    const startedMs = performance.now();
    const result = work();
    ms[stage] += performance.now() - startedMs;
    return result;
  };
  const scan = new JsonScan(SINGLE_KEYS, DEFAULT_JSON_LIMITS);
  for (let at = 0; at < body.length; at += CHUNK_BYTES)
    timed("scan", () => scan.feed(body.subarray(at, at + CHUNK_BYTES)));
  const parsed = timed("parse", () => parseBody(body, scan));
  const { request } = timed("prepare", () => format.prepare(parsed, BENCH_CONTEXT));
  timed("prepare", () => estimateInputTokens(body.length, request.messages));
  timed("digest", () => promptShape(request, PREFIX_KEY));
  const generate = GenerateRequest.fromPartial({ ...request, requestId: "r", tenant: "t" });
  timed("encode", () => GenerateRequest.encode(generate).finish());
  return ms;
}

/** Translates a body as the gateway does, on a thread where it is big. Returns how long that took, in milliseconds. */
async function translated(translator: Translator, format: Format, body: Buffer): Promise<number> {
  // A big body goes over to the thread and is gone here.
  const bytes = Buffer.from(new Uint8Array(body).buffer);
  const caller = {
    requestId: "r",
    tenant: "t",
    cacheSalt: "",
    maxOutputTokens: undefined,
    usableModels: [],
    routingKey: PREFIX_KEY,
  };
  const order = { operation: format.name, caller, bodyBytes: body.length } as const;
  const startedMs = performance.now();
  const received = { bytes, scan: undefined, singleKeys: SINGLE_KEYS };
  await translator.translate(received, order, new AbortController().signal);
  return performance.now() - startedMs;
}

function timeOfJsonParse(body: Buffer): number {
  const startedMs = performance.now();
  JSON.parse(body.toString("utf8"));
  return performance.now() - startedMs;
}
