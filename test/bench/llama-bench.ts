import { setMaxListeners } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, credentials } from "@grpc/grpc-js";
import type { LlamaContextSequence } from "node-llama-cpp";
import { loadLibrary } from "../../engine/backends/llama/runtime/load-library.ts";
import { type GenerateResponse, InferenceServiceService } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { generateRequest } from "../support/requests/generate-request.ts";
import { DEMONSTRATION, startNode } from "./processes/node-fleet.ts";
import type { BenchResult, Row } from "./report/bench-result.ts";
import { medianOf, medianRatio, type Rounds } from "./report/compare.ts";
import { interleave } from "./report/interleave.ts";
import { percentile } from "./report/percentile.ts";
import type { BenchSettings } from "./settings.ts";

/** One more than answers are given at once, so that a loop's newcomer finds an empty sequence. */
const SLOTS = 17;
const CONTEXT_TOKENS = 1_024;
/** What a sequence of the loop has room for, for several answers. */
const LOOP_CONTEXT_TOKENS = 4_096;
/** As the node has it by default. */
const BATCH_TOKENS = 256;
/** The numbers of answers that others are given while a newcomer comes. */
const OTHERS = [3, 8, 15];
/** The numbers of answers at once whose tokens are counted. */
const CLIENTS = [1, 4, 16];
/** The newcomers of one stretch. */
const NEWCOMERS = 12;
/** About 25 tokens with the template of the demonstration model. */
const PROMPT = "Please tell me what you know about the weather in the north of Italy";
const ANSWER_TOKENS = 200;

type Measured = {
  /** Milliseconds to the first tokens of newcomers, by the number of others. */
  readonly firstMs: ReadonlyMap<number, { readonly p50: number; readonly worst: number }>;
  /** Tokens a second, by the number of clients. */
  readonly speed: ReadonlyMap<number, number>;
};

/** What answers prompts: the node over gRPC, or the library alone. */
type Answering = {
  /** Answers a prompt with at most so many tokens, and resolves to how many there were, and when the first one was. */
  answer(text: string, maxTokens: number, signal?: AbortSignal): Promise<{ tokens: number; firstMs: number }>;
  stop(): Promise<void>;
};

/**
 * Measures what an engine node makes of llama.cpp, beside a plain loop over the library: the first token of a newcomer
 * while others are answered, and the tokens a second.
 */
export async function llamaBench(settings: BenchSettings): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "svc-llama-bench-"));
  try {
    const repetitions = settings.quick ? 1 : settings.repetitions;
    const targets = [{ name: "node" }, { name: "loop" }];
    const rounds = await interleave(targets, repetitions, ({ name }) => measure(name, folder, settings));
    return { ...tableOf(rounds), notes: NOTES };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const NOTES = [
  "The loop asks node-llama-cpp for tokens, without gRPC, template, parser or queue; the sequence of its newcomer is empty.",
  `Newcomers: ${NEWCOMERS} new conversations of some 25 tokens each, one after the other. One thread computes.`,
];

async function measure(name: string, folder: string, settings: BenchSettings): Promise<Measured> {
  const target = name === "node" ? await theNode(folder) : await theLoop();
  try {
    await target.answer("Hello", 20);
    const firstMs = new Map<number, { p50: number; worst: number }>();
    for (const others of OTHERS) firstMs.set(others, await newcomers(target, others));
    const speed = new Map<number, number>();
    for (const clients of CLIENTS) speed.set(clients, await tokensPerSecond(target, clients, settings));
    return { firstMs, speed };
  } finally {
    await target.stop();
  }
}

async function newcomers(target: Answering, others: number): Promise<{ p50: number; worst: number }> {
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  const busy = Array.from({ length: others }, (_, index) => answerOn(target, `other ${index}`, leaving.signal));
  await sleep(1_000);
  const times: number[] = [];
  for (let index = 0; index < NEWCOMERS; index += 1) {
    times.push((await target.answer(`${index} ${PROMPT}`, 4)).firstMs);
    await sleep(30 * (index % 4));
  }
  leaving.abort();
  await Promise.all(busy);
  return { p50: percentile(times, 0.5), worst: Math.max(...times) };
}

/** Answers one prompt after the other, until the signal. */
async function answerOn(target: Answering, who: string, signal: AbortSignal): Promise<number> {
  let tokens = 0;
  for (let turn = 0; !signal.aborted; turn += 1)
    tokens += (await target.answer(`${who} ${turn} ${PROMPT}`, ANSWER_TOKENS, signal)).tokens;
  return tokens;
}

async function tokensPerSecond(target: Answering, clients: number, settings: BenchSettings): Promise<number> {
  const leaving = new AbortController();
  setMaxListeners(0, leaving.signal);
  const beganMs = performance.now();
  const busy = Array.from({ length: clients }, (_, index) => answerOn(target, `client ${index}`, leaving.signal));
  await sleep(1_000 * settings.seconds);
  leaving.abort();
  const tokens = (await Promise.all(busy)).reduce((sum, count) => sum + count, 0);
  return tokens / ((performance.now() - beganMs) / 1_000);
}

function tableOf(rounds: Rounds<Measured>): Omit<BenchResult, "notes"> {
  const first = OTHERS.map((others): Row => {
    const value = ({ firstMs }: Measured) => firstMs.get(others)?.p50 ?? Number.NaN;
    const worst = ({ firstMs }: Measured) => firstMs.get(others)?.worst ?? Number.NaN;
    return rowOf(`first token, ms, beside ${others}`, rounds, value, medianRatio(rounds, "node", "loop", worst));
  });
  const speed = CLIENTS.map((clients): Row => {
    const value = (measured: Measured) => measured.speed.get(clients) ?? Number.NaN;
    return rowOf(`tokens a second, ${clients} at once`, rounds, value, Number.NaN);
  });
  return {
    title: "llama: an engine node beside a plain loop over the library",
    columns: [
      { key: "what", title: "what" },
      { key: "ratio", title: "node to loop", digits: 2 },
      { key: "worst", title: "worst to worst", digits: 2 },
      { key: "node", title: "node", digits: 0 },
      { key: "loop", title: "loop", digits: 0 },
    ],
    rows: [...first, ...speed],
  };
}

function rowOf(what: string, rounds: Rounds<Measured>, value: (measured: Measured) => number, worst: number): Row {
  const [node, loop] = ["node", "loop"].map((name) => medianOf(rounds, name, value));
  return { what, worst, node: node ?? 0, loop: loop ?? 0, ratio: medianRatio(rounds, "node", "loop", value) };
}

async function theNode(folder: string): Promise<Answering> {
  const node = await startNode("node", { ...DEMONSTRATION, contextTokens: CONTEXT_TOKENS, slots: SLOTS }, folder);
  const client = new Client(String(node.ready.address), credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = InferenceServiceService.generate;
  return {
    answer(text, maxOutputTokens, signal) {
      const beganMs = performance.now();
      const sampling = { temperature: 0, stop: [], logitBias: {} };
      const request = generateRequest({ sampling, maxOutputTokens }, text);
      const call = client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
      const leave = () => call.cancel();
      signal?.addEventListener("abort", leave, { once: true });
      let firstMs = Number.NaN;
      let tokens = 0;
      call.on("data", ({ events }: GenerateResponse) => {
        for (const { kind } of events) {
          if (kind?.$case === "blockDelta" && tokens++ === 0) firstMs = performance.now() - beganMs;
          if (kind?.$case === "finished") tokens = kind.value.usage?.outputTokens ?? tokens;
        }
      });
      // The status says it all; without a listener it would be thrown.
      call.on("error", () => {});
      return new Promise((resolve) => {
        call.on("status", () => {
          signal?.removeEventListener("abort", leave);
          resolve({ tokens, firstMs });
        });
      });
    },
    async stop() {
      client.close();
      await node.stop();
    },
  };
}

/**
 * Answers with the library alone. Nothing is cleared while it is measured, which would wait for those that compute: a
 * newcomer gets an empty sequence, and others go on behind their last answers.
 */
async function theLoop(): Promise<Answering> {
  const library = await loadLibrary();
  const llama = await library.getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 1 });
  const model = await llama.loadModel({ modelPath: DEMONSTRATION.modelPath });
  const sequences = OTHERS.length * NEWCOMERS + SLOTS;
  const options = { sequences, contextSize: LOOP_CONTEXT_TOKENS, batchSize: BATCH_TOKENS, threads: 1 };
  const context = await model.createContext(options);
  const empty = Array.from({ length: sequences }, () => context.getSequence());
  const used: LlamaContextSequence[] = [];
  const roomy = () => {
    const index = used.findIndex(({ nextTokenIndex }) => nextTokenIndex < LOOP_CONTEXT_TOKENS - CONTEXT_TOKENS);
    return index < 0 ? empty.shift() : used.splice(index, 1)[0];
  };
  return {
    async answer(text, maxTokens, signal) {
      const beganMs = performance.now();
      const sequence = signal ? roomy() : empty.shift();
      if (!sequence) throw new Error("the loop has no sequence left");
      let tokens = 0;
      let firstMs = Number.NaN;
      for await (const token of sequence.evaluate(model.tokenize(turnOf(text), true), { temperature: 0 })) {
        if (tokens++ === 0) firstMs = performance.now() - beganMs;
        // What a reader is shown is text.
        model.detokenize([token]);
        if (tokens >= maxTokens || signal?.aborted) break;
      }
      used.push(sequence);
      return { tokens, firstMs };
    },
    stop: () => llama.dispose(),
  };
}

/** The prompt as the template of the demonstration model writes it. */
function turnOf(text: string): string {
  return `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
}
