import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import type { Llama, LlamaContext, LlamaContextSequence, LlamaModel } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import type { LlamaOptions } from "../llama-options.ts";
import { KEPT_COPIES } from "../slots/kept-copies.ts";
import { acceleratorFault } from "./accelerator-trial.ts";
import { BatchDecoder } from "./batch-decoder.ts";
import { type LlamaLibrary, loadLibrary } from "./load-library.ts";

/** The size of a model file, in bytes, below which a second thread costs more at the barriers than it computes. */
const SINGLE_THREAD_BELOW_BYTES = 100_000_000;

/** What one loaded checkpoint consists of. Whoever loads it closes it. */
export type LlamaRuntime = {
  /** The library that has loaded it. */
  readonly library: LlamaLibrary;
  /** The binary of llama.cpp. */
  readonly llama: Llama;
  /** The model. */
  readonly model: LlamaModel;
  /**
   * All sequences of the context, one more than slots are configured. They are taken once, as giving one back takes
   * effect only later.
   */
  readonly sequences: readonly LlamaContextSequence[];
  /** Evaluates tokens of the sequences. */
  readonly decoder: BatchDecoder;
  /** The most tokens that a prompt and its answer may have together, per sequence. */
  readonly contextWindow: number;
  /** The size of the model file, in bytes. */
  readonly fileBytes: number;
  /** What computes the model and how, for people: the accelerator and its layers, the threads, the file in memory. */
  readonly setup: string;
  /** What an operator should know of what computes: an accelerator that was found and cannot. */
  readonly notes: readonly string[];
  /** Frees the model and all that belongs to it. */
  close(): Promise<void>;
};

/**
 * Loads the library, its binary and the model. Nothing is ever compiled or downloaded: where something is missing,
 * it throws `EngineError` ENGINE_DOWN and says what.
 */
export async function loadRuntime(options: LlamaOptions, signal: AbortSignal): Promise<LlamaRuntime> {
  const fileBytes = await fileSize(options.modelPath);
  const library = await loadLibrary();
  const threads = threadCount(options.threads, fileBytes);
  const { llama, notes } = await loadWorkingBinary(library, options.gpu, threads, signal);
  try {
    const { modelPath, gpuLayers, memoryMap, lockMemory, contextTokens } = options;
    // The one more is kept empty for the next newcomer.
    const count = options.slots + 1;
    const model = await llama.loadModel({
      ...{ modelPath, useMmap: memoryMap, useMlock: lockMemory, loadSignal: signal },
      // Left to itself it fills the accelerator with layers, and the context of all slots finds no room.
      gpuLayers: gpuLayers === "auto" ? { fitContext: { contextSize: contextTokens * count } } : gpuLayers,
    });
    const contextWindow = Math.min(options.contextTokens, model.trainContextSize);
    const context = await model.createContext({
      sequences: count,
      contextSize: contextWindow,
      batchSize: options.batchTokens,
      flashAttention: options.flashAttention,
      threads,
      // A sliding window would drop the start of a prefix that the next turn wants to find again.
      swaFullCache: true,
      createSignal: signal,
    });
    const setup = setupOf(llama, model, context, { threads, lockMemory });
    const copies = { max: KEPT_COPIES, interval: false } as const;
    const sequences = Array.from({ length: count }, () => context.getSequence({ checkpoints: copies }));
    const decoder = new BatchDecoder(context);
    return { library, llama, model, sequences, decoder, contextWindow, fileBytes, setup, notes, close };
  } catch (cause) {
    await close();
    signal.throwIfAborted();
    const why = cause instanceof Error ? cause.message : "unknown error";
    throw new EngineError("ENGINE_DOWN", `The model file ${options.modelPath} could not be loaded: ${why}`, {}, cause);
  }

  async function close(): Promise<void> {
    await llama.dispose();
  }
}

async function fileSize(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (cause) {
    throw new EngineError("ENGINE_DOWN", `The model file ${path} cannot be read.`, {}, cause);
  }
}

function threadCount(threads: LlamaOptions["threads"], fileBytes: number): number {
  if (threads !== "auto") return threads;
  return fileBytes < SINGLE_THREAD_BELOW_BYTES ? 1 : Math.max(1, availableParallelism() - 1);
}

/** Returns what computes the model and how, as its operator would say it. */
function setupOf(
  llama: Llama,
  model: LlamaModel,
  context: LlamaContext,
  { threads, lockMemory }: { readonly threads: number; readonly lockMemory: boolean },
): string {
  const { gpu } = llama;
  const where = gpu === false ? "CPU" : `${gpu} with ${model.gpuLayers} layers`;
  const { flashAttention } = context;
  const attention = flashAttention === "auto" ? "where it can" : flashAttention ? "on" : "off";
  const file = `model file ${model.useMmap ? "mapped" : "read"}${lockMemory ? " and locked" : ""}`;
  return `${where}, threads ${threads}, flash attention ${attention}, ${file}`;
}

const NO_BINARY_HINT =
  "Install the project anew on the machine that runs it, or put the node beside llama-server (engine/README.md).";
const OTHER_BUILD_HINT =
  "a newer driver may help, or llama-server beside the node, built for this one (engine/README.md)";

/**
 * Loads the binary, and notes what an operator should know of it. Where its accelerator cannot compute, the processor does
 * if the choice was the node's; one that was asked for is an `EngineError` ENGINE_DOWN.
 */
async function loadWorkingBinary(
  library: LlamaLibrary,
  gpu: LlamaOptions["gpu"],
  threads: number,
  signal: AbortSignal,
): Promise<{ readonly llama: Llama; readonly notes: readonly string[] }> {
  const llama = await loadBinary(library, gpu, threads);
  const fault = llama.gpu === false ? undefined : await acceleratorFault(llama.gpu, signal);
  if (fault === undefined) return { llama, notes: [] };
  await llama.dispose();
  const note = `llama.cpp cannot compute with ${llama.gpu} on this machine (${fault}); ${OTHER_BUILD_HINT}`;
  if (gpu !== "auto") throw new EngineError("ENGINE_DOWN", `${note}.`);
  return { llama: await loadBinary(library, false, threads), notes: [`${note}; until then the processor computes`] };
}

async function loadBinary(library: LlamaLibrary, gpu: LlamaOptions["gpu"], threads: number): Promise<Llama> {
  try {
    return await library.getLlama({
      gpu,
      build: "never",
      skipDownload: true,
      progressLogs: false,
      logLevel: library.LlamaLogLevel.error,
      maxThreads: threads,
    });
  } catch (cause) {
    const what = gpu === "auto" || gpu === false ? "this machine" : `${gpu} on this machine`;
    throw new EngineError(
      "ENGINE_DOWN",
      `node-llama-cpp has no binary that works for ${what}. ${NO_BINARY_HINT}`,
      {},
      cause,
    );
  }
}
