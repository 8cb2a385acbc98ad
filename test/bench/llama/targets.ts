import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { LlamaContextSequence, LlamaModel } from "node-llama-cpp";
import { FairLane } from "../../../deploy/runtime/queue/fair-lane.ts";
import {
  type NativeContext,
  newNativeSampler,
  samplerConfig,
} from "../../../engine/backends/llama/runtime/batch-decoder.ts";
import { loadLibrary, threadCount } from "../../../engine/backends/llama/runtime/llama-runtime.ts";
import { HandOver } from "../../../gateway/upstream/wire/hand-over.ts";
import { Http2Wire } from "../../../gateway/upstream/wire/http2-wire.ts";
import { GenerateRequest, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { generateRequest, textMessage } from "../../support/requests/generate-request.ts";
import { startNode } from "../processes/programs.ts";

const DEADLINE_MS = 600_000;
const MAX_MESSAGE_BYTES = 1_000_000;

export type Shape = { readonly slots: number; readonly contextTokens: number };

/** Turns of a conversation, the user's first, and the tokens of the answer, which nothing ends earlier. */
export type Question = {
  readonly turns: readonly string[];
  readonly tokens: number;
  readonly onTokens: (count: number) => void;
  readonly signal?: AbortSignal;
};

/** What answers conversations. Resolves to the tokens of the prompt and of those the cached ones. */
export type Answering = {
  answer(question: Question): Promise<{ readonly inputTokens: number; readonly cachedTokens: number }>;
  stop(): Promise<void>;
};

/** llama.cpp's own call, without anything around it. All times are in milliseconds. */
export type Bare = {
  readonly windowTokens: number;
  readonly endTokens: readonly number[];
  /** Returns the time of a step of sequences that lie side by side, without and with greedy samples. */
  stepMs(width: number): Promise<{ readonly decodeMs: number; readonly sampledMs: number }>;
  prefillMs(tokens: number): Promise<number>;
  stop(): Promise<void>;
};

export async function startNodeTarget(
  modelPath: string,
  { slots, contextTokens }: Shape,
  endTokens: readonly number[],
  folder: string,
): Promise<Answering> {
  const node = await startNode("node", { kind: "llama", modelPath, contextTokens, slots }, folder);
  const address = String(node.ready.address);
  const wire = new Http2Wire({ address, tls: undefined, maxMessageBytes: MAX_MESSAGE_BYTES });
  const lane = new FairLane();
  wire.warm();
  const logitBias = Object.fromEntries(endTokens.map((token) => [token, -1_000]));
  return {
    answer({ turns, tokens, onTokens, signal }) {
      const messages = turns.map((text, at) => textMessage(at % 2 === 0 ? Role.USER : Role.ASSISTANT, text));
      const sampling = { temperature: 0, stop: [], logitBias };
      // Only a resumable answer says how many tokens came.
      const fields = { messages, sampling, maxOutputTokens: tokens, resumable: true };
      const message = GenerateRequest.encode(generateRequest(fields)).finish();
      const handOver = new HandOver({ lane, tenant: "", bytes: message.length });
      let [inputTokens, cachedTokens] = [Number.NaN, Number.NaN];
      return new Promise((resolve, reject) => {
        const request = { message, headers: {}, deadline: Date.now() + DEADLINE_MS, handOver };
        const call = wire.open(request, {
          message: (bytes, from, to) => {
            const { events, tokens } = GenerateResponse.decode(bytes.subarray(from, to));
            if (tokens.length > 0) onTokens(tokens.length);
            for (const { kind } of events) {
              if (kind?.$case === "started") inputTokens = kind.value.inputTokens;
              if (kind?.$case === "finished") cachedTokens = kind.value.usage?.cachedInputTokens ?? 0;
            }
          },
          ended: (end) => {
            if (Number.isNaN(cachedTokens) && !signal?.aborted)
              reject(new Error("the node did not answer", { cause: end.error }));
            else resolve({ inputTokens, cachedTokens });
          },
        });
        signal?.addEventListener("abort", () => call.cancel(), { once: true });
      });
    },
    async stop() {
      wire.close();
      await node.stop();
    },
  };
}

/** Starts llama-server with its own defaults but the same slots and windows. */
export async function startServerTarget(
  binary: string,
  modelPath: string,
  { slots, contextTokens }: Shape,
): Promise<Answering> {
  const port = await freePort();
  const window = ["-np", String(slots), "-c", String(slots * contextTokens)];
  const args = ["-m", modelPath, "--host", "127.0.0.1", "--port", String(port), ...window];
  const server = spawn(binary, args, { stdio: "ignore" });
  process.once("exit", () => server.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  await untilHealthy(server, `${url}/health`);
  return {
    async answer({ turns, tokens, onTokens, signal }) {
      const messages = turns.map((content, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content }));
      const body = { messages, stream: true, max_tokens: tokens, temperature: 0, ignore_eos: true };
      let text = "";
      try {
        const asked = { method: "POST", body: JSON.stringify(body), ...(signal ? { signal } : {}) };
        const response = await fetch(`${url}/v1/chat/completions`, asked);
        if (!response.ok || !response.body) throw new Error(`llama-server answered ${await response.text()}`);
        const decoder = new TextDecoder();
        for await (const bytes of response.body) {
          text += decoder.decode(bytes, { stream: true });
          const lines = text.split("\n");
          text = lines.pop() ?? "";
          for (const line of lines) {
            const event = /^data: (\{.*)/.exec(line)?.[1];
            if (event === undefined) continue;
            const { choices, timings } = JSON.parse(event) as ServerEvent;
            if (choices?.[0]?.delta.content || choices?.[0]?.delta.reasoning_content) onTokens(1);
            if (timings) return { inputTokens: timings.prompt_n + timings.cache_n, cachedTokens: timings.cache_n };
          }
        }
      } catch (error) {
        if (!signal?.aborted) throw error;
      }
      return { inputTokens: Number.NaN, cachedTokens: Number.NaN };
    },
    async stop() {
      server.kill("SIGKILL");
      if (server.exitCode === null && server.signalCode === null) await once(server, "exit");
    },
  };
}

type ServerEvent = {
  readonly choices?: readonly { readonly delta: { readonly content?: string; readonly reasoning_content?: string } }[];
  readonly timings?: { readonly prompt_n: number; readonly cache_n: number };
};

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port is free");
  return address.port;
}

async function untilHealthy(server: ChildProcess, url: string): Promise<void> {
  for (;;) {
    if (server.exitCode !== null) throw new Error(`llama-server ended with ${server.exitCode}`);
    const response = await fetch(url).catch(() => undefined);
    await response?.text();
    if (response?.ok) return;
    await sleep(20);
  }
}

const STEPS = 48;
/** The tokens that sequences hold before a step is timed: with the steps, about as many as beside an answer that is counted. */
const HELD_TOKENS = 96;
const BARE_BATCH_TOKENS = 512;
const ANY_TOKEN = 100;

/** Loads the model into this process, with the threads that a node takes. */
export async function startBare(modelPath: string, fileBytes: number, shape: Shape): Promise<Bare> {
  const { getLlama } = await loadLibrary();
  const threads = threadCount("auto", fileBytes);
  const llama = await getLlama({ gpu: "auto", build: "never", skipDownload: true, maxThreads: threads });
  const model = await llama.loadModel({ modelPath });
  const contextSize = Math.min(shape.contextTokens, model.trainContextSize);
  const sequences = shape.slots + 1;
  const context = await model.createContext({
    ...{ sequences, contextSize, batchSize: BARE_BATCH_TOKENS, threads },
    ...{ flashAttention: "auto", swaFullCache: true },
  });
  const { _ctx: native } = context as unknown as { readonly _ctx: NativeContext };
  const all = Array.from({ length: sequences }, () => context.getSequence());
  const held = all.map(() => 0);
  const add = (id: number, tokens: number) => {
    const at = native.addToBatch(
      id,
      held[id] ?? 0,
      new Uint32Array(tokens).fill(ANY_TOKEN),
      Uint32Array.of(tokens - 1),
    );
    held[id] = (held[id] ?? 0) + tokens;
    return at[0] ?? 0;
  };
  const clear = (id: number) => {
    native.removeTokenCellsFromSequence(id, 0, -1);
    held[id] = 0;
  };
  const read = async (id: number, tokens: number) => {
    for (let left = tokens; left > 0; left -= BARE_BATCH_TOKENS) {
      const size = Math.min(left, BARE_BATCH_TOKENS);
      native.initBatch(size);
      add(id, size);
      await native.decodeBatch();
    }
  };
  const samplers = all.map((sequence) => greedySampler(model, sequence));
  return {
    windowTokens: model.trainContextSize,
    // A node ends an answer before the mark of another message too.
    endTokens: [...model.iterateAllTokens()].filter((token) => model.isSpecialToken(token)),
    async stepMs(width) {
      const ids = Array.from({ length: width }, (_, id) => id);
      for (const id of ids) {
        clear(id);
        await read(id, HELD_TOKENS);
      }
      const [decodes, samples]: [number[], number[]] = [[], []];
      for (let step = 0; step <= STEPS; step += 1) {
        native.initBatch(width);
        const places = ids.map((id) => add(id, 1));
        const beganMs = performance.now();
        await native.decodeBatch();
        const decodedMs = performance.now();
        await Promise.all(
          places.map((place, id) => native.sampleToken(place, samplers[id] ?? greedySampler(model, all[id]))),
        );
        decodes.push(decodedMs - beganMs);
        samples.push(performance.now() - beganMs);
      }
      return { decodeMs: meanMs(decodes), sampledMs: meanMs(samples) };
    },
    async prefillMs(tokens) {
      clear(0);
      const beganMs = performance.now();
      await read(0, tokens);
      return performance.now() - beganMs;
    },
    stop: () => llama.dispose(),
  };
}

function greedySampler(model: LlamaModel, sequence: LlamaContextSequence | undefined) {
  const sampler = newNativeSampler(model);
  if (sequence) sampler.applyConfig(samplerConfig(sequence, { temperature: 0 }));
  return sampler;
}

/** A mean, as answers are counted by their time too. The first step is not counted. */
function meanMs([, ...times]: readonly number[]): number {
  return times.reduce((sum, ms) => sum + ms, 0) / times.length;
}
