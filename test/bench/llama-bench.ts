import { setMaxListeners } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LlamaContextSequence, LlamaModel } from "node-llama-cpp";
import { FairLane } from "../../deploy/runtime/queue/fair-lane.ts";
import { loadLibrary } from "../../engine/backends/llama/runtime/llama-runtime.ts";
import { HandOver } from "../../gateway/upstream/wire/hand-over.ts";
import { Http2Wire } from "../../gateway/upstream/wire/http2-wire.ts";
import { GenerateRequest, GenerateResponse } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { DEMONSTRATION, startNode } from "./processes/programs.ts";
import {
  type BenchResult,
  cpuMs,
  interleave,
  medianOf,
  medianRatio,
  percentile,
  type Rounds,
  type Row,
} from "./report.ts";
import type { BenchSettings } from "./settings.ts";

const SLOTS = 17;
const CONTEXT_TOKENS = 1_024;
const BATCH_TOKENS = 256;
const OTHERS = [3, 8, 15];
const CLIENTS = [1, 4, 16];
const NEWCOMERS = 12;
const PROMPT = "Please tell me what you know about the weather in the north of Italy";
const LONG_PROMPT = "Count from 1 to 90 please";
const ANSWER_TOKENS = 200;
const MAX_MESSAGE_BYTES = 1_000_000;
const DEADLINE_MS = 60_000;

type Measured = {
  /** Milliseconds to the first tokens of new requests; NaN in throughput measurements. */
  readonly firstMs: number;
  readonly worstMs: number;
  readonly speed: number;
  /** The CPU time of the process that computes, all threads, in microseconds per token. */
  readonly cpuUs: number;
};

type Asker = {
  /** The number of the client, from 0; undefined for a new request. */
  readonly client?: number;
  readonly signal?: AbortSignal;
};

type Answering = {
  readonly pid: number;
  answer(text: string, maxTokens: number, asker: Asker): Promise<{ tokens: number; firstMs: number }>;
  rest(): Promise<void>;
  stop(): Promise<void>;
};

/** Compares a node with a plain loop over llama.cpp. Their measurements alternate, so that other load affects both. */
export async function llamaBench(settings: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-llama-bench-"));
  const repetitions = settings.quick ? 3 : settings.repetitions;
  const node = await theNode(folder);
  try {
    const loop = await theLoop();
    try {
      const targets = [
        { name: "node", target: node },
        { name: "loop", target: loop },
      ];
      const rows: Row[] = [];
      for (const others of OTHERS) {
        const rounds = await interleave(targets, repetitions, ({ target }) => newcomers(target, others));
        rows.push(firstTokenRow(others, rounds));
      }
      for (const clients of CLIENTS) {
        const rounds = await interleave(targets, repetitions, ({ target }) => throughput(target, clients, settings));
        rows.push(...throughputRows(clients, rounds));
      }
      return { ...TABLE, rows, notes: NOTES };
    } finally {
      await loop.stop();
    }
  } finally {
    await node.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

const TABLE = {
  title: "llama: an engine node beside a plain loop over the library",
  columns: [
    { key: "what", title: "what" },
    { key: "ratio", title: "node to loop", digits: 2 },
    { key: "worst", title: "worst to worst", digits: 2 },
    { key: "node", title: "node", digits: 0 },
    { key: "loop", title: "loop", digits: 0 },
  ],
};

const NOTES = [
  "The loop asks node-llama-cpp for tokens, without gRPC, template, parser or queue, and never waits for a sequence to be cleared.",
  "The loop has no caller: the node's caller is this process, with the wire that gateways use, and takes its time from the same processors.",
  `Newcomers: ${NEWCOMERS} new conversations of some 25 tokens each, one after the other. One thread computes.`,
];

async function newcomers(target: Answering, others: number): Promise<Measured> {
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  const busy = Array.from({ length: others }, (_, client) => answerOn(target, { client, signal: leaving.signal }));
  await sleep(1_000);
  const times: number[] = [];
  for (let index = 0; index < NEWCOMERS; index += 1) {
    times.push((await target.answer(`${index} ${PROMPT}`, 4, {})).firstMs);
    await sleep(30 * (index % 4));
  }
  leaving.abort();
  await Promise.all(busy);
  await target.rest();
  return { firstMs: percentile(times, 0.5), worstMs: Math.max(...times), speed: Number.NaN, cpuUs: Number.NaN };
}

async function answerOn(target: Answering, asker: Required<Asker>): Promise<number> {
  let tokens = 0;
  for (let turn = 0; !asker.signal.aborted; turn += 1)
    tokens += (await target.answer(`client ${asker.client} ${turn} ${LONG_PROMPT}`, ANSWER_TOKENS, asker)).tokens;
  return tokens;
}

async function throughput(target: Answering, clients: number, settings: BenchSettings): Promise<Measured> {
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  const [beganMs, cpuBefore] = [performance.now(), cpuMs(target.pid)];
  const busy = Array.from({ length: clients }, (_, client) => answerOn(target, { client, signal: leaving.signal }));
  await sleep(1_000 * settings.seconds);
  leaving.abort();
  const tokens = (await Promise.all(busy)).reduce((sum, count) => sum + count, 0);
  const [tookMs, cpu] = [performance.now() - beganMs, cpuMs(target.pid) - cpuBefore];
  await target.rest();
  return { firstMs: Number.NaN, worstMs: Number.NaN, speed: (1_000 * tokens) / tookMs, cpuUs: (1_000 * cpu) / tokens };
}

function firstTokenRow(others: number, rounds: Rounds<Measured>): Row {
  const worst = medianRatio(rounds, "node", "loop", ({ worstMs }) => worstMs);
  return { ...rowOf(`first token, ms, beside ${others}`, rounds, ({ firstMs }) => firstMs), worst };
}

function throughputRows(clients: number, rounds: Rounds<Measured>): readonly Row[] {
  return [
    rowOf(`tokens a second, ${clients} at once`, rounds, ({ speed }) => speed),
    rowOf(`processor time a token, µs, ${clients} at once`, rounds, ({ cpuUs }) => cpuUs),
  ];
}

function rowOf(what: string, rounds: Rounds<Measured>, value: (measured: Measured) => number): Row {
  const [node, loop] = ["node", "loop"].map((name) => medianOf(rounds, name, value));
  const ratio = medianRatio(rounds, "node", "loop", value);
  return { what, worst: Number.NaN, node: node ?? 0, loop: loop ?? 0, ratio };
}

async function theNode(folder: string): Promise<Answering> {
  const node = await startNode("node", { ...DEMONSTRATION, contextTokens: CONTEXT_TOKENS, slots: SLOTS }, folder);
  const wire = new Http2Wire({
    address: String(node.ready.address),
    tls: undefined,
    maxMessageBytes: MAX_MESSAGE_BYTES,
  });
  const lane = new FairLane();
  wire.warm();
  return {
    pid: node.pid,
    async rest() {},
    answer(text, maxOutputTokens, { signal }) {
      const beganMs = performance.now();
      const sampling = { temperature: 0, stop: [], logitBias: {} };
      const message = GenerateRequest.encode(generateRequest({ sampling, maxOutputTokens }, text)).finish();
      const handOver = new HandOver({ lane, tenant: "", bytes: message.length });
      let firstMs = Number.NaN;
      let tokens = 0;
      return new Promise((resolve) => {
        const request = { message, headers: {}, deadline: Date.now() + DEADLINE_MS, handOver };
        const call = wire.open(request, {
          message: (bytes, from, to) => {
            for (const { kind } of GenerateResponse.decode(bytes.subarray(from, to)).events) {
              if (kind?.$case === "blockDelta" && tokens++ === 0) firstMs = performance.now() - beganMs;
              if (kind?.$case === "finished") tokens = kind.value.usage?.outputTokens ?? tokens;
            }
          },
          ended: () => {
            signal?.removeEventListener("abort", leave);
            resolve({ tokens, firstMs });
          },
        });
        const leave = () => call.cancel();
        signal?.addEventListener("abort", leave, { once: true });
      });
    },
    async stop() {
      wire.close();
      await node.stop();
    },
  };
}

/**
 * Answers with the library alone. No request waits for a sequence to be cleared, which the library does only between
 * batches: a new request gets an empty sequence, and a client has two, one of which is cleared while the other answers.
 * Concurrent clients have adjacent sequences, which llama.cpp evaluates together.
 */
async function theLoop(): Promise<Answering> {
  const library = await loadLibrary();
  const llama = await library.getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 1 });
  const model = await llama.loadModel({ modelPath: DEMONSTRATION.modelPath });
  const most = Math.max(...CLIENTS, ...OTHERS);
  const sequences = 2 * most + NEWCOMERS;
  const context = await model.createContext({
    ...{ sequences, contextSize: CONTEXT_TOKENS, batchSize: BATCH_TOKENS, threads: 1 },
  });
  const all = Array.from({ length: sequences }, () => emptySequence(context.getSequence()));
  let newcomers = 0;
  const turns = new Map<number, number>();
  const sequenceOf = ({ client }: Asker) => {
    if (client === undefined) return all[2 * most + newcomers++];
    const turn = turns.get(client) ?? 0;
    turns.set(client, turn + 1);
    return all[client + most * (turn % 2)];
  };
  return {
    pid: process.pid,
    async answer(text, maxTokens, asker) {
      const beganMs = performance.now();
      const mine = sequenceOf(asker);
      if (!mine) throw new Error("the loop has no sequence left");
      await mine.cleared;
      const answered = await loopAnswer(model, mine.sequence, text, { maxTokens, beganMs, signal: asker.signal });
      if (asker.client !== undefined) mine.cleared = mine.sequence.clearHistory();
      return answered;
    },
    async rest() {
      newcomers = 0;
      for (const { sequence, cleared } of all) {
        await cleared;
        await sequence.clearHistory();
      }
    },
    stop: () => llama.dispose(),
  };
}

function emptySequence(sequence: LlamaContextSequence): { sequence: LlamaContextSequence; cleared: Promise<void> } {
  return { sequence, cleared: Promise.resolve() };
}

type LoopOptions = {
  readonly maxTokens: number;
  readonly beganMs: number;
  readonly signal: AbortSignal | undefined;
};

async function loopAnswer(
  model: LlamaModel,
  sequence: LlamaContextSequence,
  text: string,
  { maxTokens, beganMs, signal }: LoopOptions,
): Promise<{ tokens: number; firstMs: number }> {
  let tokens = 0;
  let firstMs = Number.NaN;
  for await (const token of sequence.evaluate(model.tokenize(turnOf(text), true), { temperature: 0 })) {
    if (tokens++ === 0) firstMs = performance.now() - beganMs;
    // Callers receive text, so each token is detokenized.
    model.detokenize([token]);
    if (tokens >= maxTokens || signal?.aborted) break;
  }
  return { tokens, firstMs };
}

function turnOf(text: string): string {
  return `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
}
