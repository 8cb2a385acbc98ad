import { join } from "node:path";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import { type Clock, systemClock } from "../../../deploy/runtime/time/clock.ts";
import { LlamaBackend } from "../../../engine/backends/llama/llama-backend.ts";
import { type LlamaOptions, llamaSchema } from "../../../engine/backends/llama/runtime/llama-options.ts";
import { loadLibrary } from "../../../engine/backends/llama/runtime/llama-runtime.ts";
import { type Event, type Finished, GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { Message, Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { answerOf } from "../events/answer-of.ts";
import { digestsOf } from "../requests/prefix-digests.ts";
import { user } from "./canonical.ts";
import { workHere } from "./work-here.ts";

export const DEMO_MODEL = modelFile("demo.gguf");
export const RANDOM_MODEL = modelFile("random-tiny.gguf");
/** A tiny model with random weights whose cache cannot be cut. */
export const RECURRENT_MODEL = modelFile("random-recurrent.gguf");

/**
 * The device that computes the models of these tests: the CPU, unless SVC_TEST_GPU names an accelerator of this machine
 * (cuda, vulkan or metal).
 */
export const GPU = llamaSchema.shape.gpu.parse(process.env.SVC_TEST_GPU || false);

export const OPTIONS: LlamaOptions = {
  nodeId: "test",
  models: ["demo"],
  modelPath: DEMO_MODEL,
  contextTokens: 2048,
  slots: 3,
  threads: 1,
  gpu: GPU,
  gpuLayers: "auto",
  flashAttention: "auto",
  undeclaredProperties: false,
  batchTokens: 128,
  tokenCacheMegabytes: 64,
  queueLength: 16,
  maxQueueWaitMs: 60_000,
};

/** The reason why the tests that need llama.cpp cannot run on this machine; empty if they can. */
export const missing = await whyMissing();
if (missing !== "") process.stderr.write(`skipping tests with a real model: ${missing}\n`);

export async function startBackend(
  options: Partial<LlamaOptions> = {},
  clock: Clock = systemClock,
): Promise<LlamaBackend> {
  const backend = new LlamaBackend({ ...OPTIONS, ...options }, workHere, clock);
  await backend.start(new AbortController().signal);
  return backend;
}

let shared: Promise<LlamaBackend> | undefined;

/**
 * Resolves to the backend with `OPTIONS` that the files of a worker share. It ends with the worker and is never closed.
 */
export function sharedBackend(): Promise<LlamaBackend> {
  shared ??= startBackend();
  return shared;
}

export function request(messages: string | readonly Message[], more: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    ...GenerateRequest.fromPartial({ model: "demo", requestId: "test" }),
    messages: typeof messages === "string" ? [user(messages)] : messages,
    sampling: { temperature: 0, stop: [], logitBias: {} },
    ...more,
  };
}

/** Creates a request with the digests of a gateway; the head is the one system message. */
export function digested(
  messages: readonly Message[],
  tools: readonly Tool[] = [],
  more: Partial<GenerateRequest> = {},
): GenerateRequest {
  return request(messages, { tools, prefixDigests: digestsOf(messages), maxOutputTokens: 12, ...more });
}

export type Reply = {
  readonly events: readonly Event[];
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly finished: Finished;
  readonly cached: number;
};

export async function ask(backend: LlamaBackend, wanted: GenerateRequest, signal = never()): Promise<Reply> {
  const events: Event[] = [];
  for await (const step of backend.generate(wanted, signal)) events.push(...step.events);
  return toReply(events);
}

/** Asks, and resolves when the first words have come; the returned function reads the rest and resolves to the reply. */
export async function askUntilWords(backend: LlamaBackend, wanted: GenerateRequest): Promise<() => Promise<Reply>> {
  const running = backend.generate(wanted, never());
  const events: Event[] = [];
  while (!events.some(({ kind }) => kind?.$case === "blockDelta")) {
    const { value, done } = await running.next();
    if (done) throw new Error("the answer has no words");
    events.push(...value.events);
  }
  return async () => {
    for await (const step of running) events.push(...step.events);
    return toReply(events);
  };
}

export function never(): AbortSignal {
  return new AbortController().signal;
}

function toReply(events: readonly Event[]): Reply {
  const { blocks, finished } = answerOf(events);
  if (!finished) throw new Error("the stream has no end");
  const of = (kind: string) => blocks.filter((block) => block.kind === kind);
  const textOf = (kind: string) =>
    of(kind)
      .map(({ text }) => text)
      .join("");
  return {
    events,
    text: textOf("text"),
    reasoning: textOf("reasoning"),
    calls: of("toolCall").map(({ name = "", text }) => ({ name, arguments: text })),
    finished,
    cached: finished.usage?.cachedInputTokens ?? -1,
  };
}

async function whyMissing(): Promise<string> {
  try {
    const { getLlama } = await loadLibrary();
    const llama = await getLlama({ gpu: GPU, build: "never", skipDownload: true, progressLogs: false });
    await llama.dispose();
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : "unknown";
  }
}

function modelFile(name: string): string {
  return join(projectFolder(), "engine/demo-model", name);
}
