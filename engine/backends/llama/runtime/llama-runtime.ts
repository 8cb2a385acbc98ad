import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Llama, LlamaContext, LlamaContextSequence, LlamaModel } from "node-llama-cpp";
import { projectFolder } from "../../../../deploy/runtime/files/project-folder.ts";
import { EngineError } from "../../../errors.ts";
import { KEPT_COPIES } from "../slots/slots.ts";
import { BatchDecoder } from "./batch-decoder.ts";
import type { LlamaOptions } from "./llama-options.ts";
import { ThreadFit } from "./thread-fit.ts";

/** In milliseconds. A trial takes three seconds, but a driver may compile its kernels first. */
const TRIAL_MS = 60_000;
const MAX_REASON = 200;
/** A tiny model: the trial tests the build of the kernels, which all models share. */
const MODEL = join(projectFolder(), "engine/demo-model/random-tiny.gguf");

/** Its arguments: the accelerator, the path of the model and the URL of the library. */
const PROGRAM = `
  // The library starts a process that tries whether its binary loads, and that one is to run its own program.
  process.execArgv = [];
  const [gpu, modelPath, library] = process.argv.slice(1);
  const { getLlama } = await import(library);
  const llama = await getLlama({ gpu, build: "never", skipDownload: true, progressLogs: false, maxThreads: 1 });
  const model = await llama.loadModel({ modelPath, gpuLayers: "max" });
  const context = await model.createContext({ contextSize: 256, batchSize: 32, threads: 1 });
  await context.getSequence().evaluate(model.tokenize("a"))[Symbol.asyncIterator]().next();
  process.exit(0);
`;

/**
 * Computes one token on an accelerator in a separate process, because llama.cpp aborts where a kernel cannot run: its
 * CUDA build loads with too old a driver, and aborts at the first token. Resolves to the reason; undefined if it did
 * not crash, also after other errors, which loading the model reports too.
 */
export function acceleratorFault(gpu: string, signal: AbortSignal, program = PROGRAM): Promise<string | undefined> {
  const args = ["--input-type=module", "--eval", program, "--", gpu, MODEL, import.meta.resolve("node-llama-cpp")];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TRIAL_MS, killSignal: "SIGKILL", signal }, (error, _output, said) => {
      if (signal.aborted || !error?.signal) return resolve(undefined);
      const reason = /\w+ error: .*/.exec(said)?.[0].trim().slice(0, MAX_REASON);
      resolve(reason ?? (error.killed ? "it computed no token in time" : `its process ended with ${error.signal}`));
    });
  });
}

type LlamaLibrary = typeof import("node-llama-cpp");

/** Throws `EngineError` ENGINE_DOWN if the optional dependency is not installed. */
export async function loadLibrary(): Promise<LlamaLibrary> {
  try {
    return await import("node-llama-cpp");
  } catch (cause) {
    throw new EngineError(
      "ENGINE_DOWN",
      "The package node-llama-cpp could not be loaded. Install the project without leaving out optional dependencies.",
      {},
      cause,
    );
  }
}

/** The size of a model file, in bytes, below which a second thread costs more in synchronization than it computes. */
const SINGLE_THREAD_BELOW_BYTES = 50_000_000;
/** The library rounds windows up to multiples of this, in tokens. */
const CONTEXT_STEP = 256;

export type LlamaRuntime = {
  readonly library: LlamaLibrary;
  readonly llama: Llama;
  readonly model: LlamaModel;
  /** One more than there are slots, allocated once: releasing one takes effect only later. */
  readonly sequences: readonly LlamaContextSequence[];
  readonly decoder: BatchDecoder;
  readonly contextWindow: number;
  readonly fileBytes: number;
  /** What computes with how much memory, for people. */
  readonly setup: string;
  /** The memory of all caches, in bytes. */
  readonly kvBytes: number;
  readonly notes: readonly string[];
  close(): Promise<void>;
};

/**
 * Never compiles or downloads. `onLoad` is called with the part of the weights that is loaded, from 0 to 1. Throws
 * `EngineError` ENGINE_DOWN with the missing part.
 */
export async function loadRuntime(
  options: LlamaOptions,
  signal: AbortSignal,
  onLoad: (part: number) => void = () => {},
): Promise<LlamaRuntime> {
  const fileBytes = await fileSize(options.modelPath);
  const library = await loadLibrary();
  const threads = threadCount(options.threads, fileBytes);
  const { llama, notes } = await loadWorkingBinary(library, options.gpu, threads, signal);
  try {
    const { modelPath, gpuLayers, contextTokens } = options;
    // The additional sequence stays empty for the next new conversation.
    const sequences = options.slots + 1;
    const onGpu = llama.gpu !== false;
    const freeBytes = onGpu ? (await llama.getVramState()).free : process.availableMemory();
    const model = await llama.loadModel({
      modelPath,
      loadSignal: signal,
      onLoadProgress: onLoad,
      // By default the library fills the accelerator with layers, and leaves no memory for the context of all slots.
      gpuLayers: gpuLayers === "auto" ? { fitContext: { contextSize: contextTokens * sequences } } : gpuLayers,
    });
    const contextWindow = Math.min(contextTokens, model.trainContextSize);
    const batchSize = options.batchTokens ?? (onGpu ? 512 : 256);
    // A sliding window would drop the start of a prefix that the next turn reuses.
    const shape = { sequences, contextSize: contextWindow, batchSize, swaFullCache: true };
    const { flashAttention } = options;
    const created = model.createContext({ ...shape, flashAttention, threads, createSignal: signal });
    const context = await created.catch(async (cause) => {
      if (!(cause instanceof library.InsufficientMemoryError)) throw cause;
      throw new Error(`${cause.message}; ${await fitting(model, shape, onGpu, freeBytes)}`, { cause });
    });
    const { ram, vram } = context.memoryUsage;
    const kvBytes = ram + vram;
    const setup = await setupOf(llama, model, context, threads, kvBytes);
    const { totalLayers } = model.fileInsights;
    if (onGpu && gpuLayers === "auto" && model.gpuLayers < totalLayers)
      notes.push(
        `beside the KV memory only ${model.gpuLayers} of ${totalLayers} layers fit on the accelerator, which is many times slower; ${await fitting(model, shape, onGpu, freeBytes)}`,
      );
    const copies = { max: KEPT_COPIES, interval: false } as const;
    const all = Array.from({ length: sequences }, () => context.getSequence({ checkpoints: copies }));
    // A number that an operator has set stays, and on an accelerator threads wait for it.
    const fit = options.threads === "auto" && !onGpu && threads > 1 ? new ThreadFit(threads) : undefined;
    const decoder = new BatchDecoder(context, all, onGpu, fit);
    return { library, llama, model, sequences: all, decoder, contextWindow, fileBytes, setup, kvBytes, notes, close };
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

/**
 * All but one of the cores, as threads wait for each other and one without a core holds up all; both of two, where
 * the second computes more than the node and what stands beside it take.
 */
export function threadCount(
  threads: LlamaOptions["threads"],
  fileBytes: number,
  cores: number = availableParallelism(),
): number {
  if (threads !== "auto") return threads;
  if (fileBytes < SINGLE_THREAD_BELOW_BYTES) return 1;
  return cores === 2 ? 2 : Math.max(1, cores - 1);
}

async function setupOf(
  llama: Llama,
  model: LlamaModel,
  { contextSize, totalSequences, flashAttention }: LlamaContext,
  threads: number,
  kvBytes: number,
): Promise<string> {
  const { gpu } = llama;
  const layers = `${model.gpuLayers} of ${model.fileInsights.totalLayers} layers`;
  const where = gpu === false ? "CPU" : `${gpu} (${(await llama.getGpuDeviceNames()).join(", ")}) with ${layers}`;
  const memory = `KV memory ${(kvBytes / 2 ** 30).toFixed(2)} GiB for ${totalSequences} times ${contextSize} tokens`;
  const attention = flashAttention === "auto" ? "where it can" : flashAttention ? "on" : "off";
  return `${where}, ${memory}, threads ${threads}, flash attention ${attention}, model file ${model.useMmap ? "mapped" : "read"}`;
}

type ContextShape = {
  readonly sequences: number;
  readonly contextSize: number;
  readonly batchSize: number;
  readonly swaFullCache: boolean;
};

/** Returns which settings the memory suffices for beside all layers, by the library's estimates. */
export async function fitting(
  model: LlamaModel,
  shape: ContextShape,
  onGpu: boolean,
  freeBytes: number,
): Promise<string> {
  const { sequences, contextSize } = shape;
  const { fileInsights: insights } = model;
  const modelGpuLayers = onGpu ? insights.totalLayers : 0;
  const bytesOf = ({ cpuRam, gpuVram }: { readonly cpuRam: number; readonly gpuVram: number }) =>
    onGpu ? gpuVram : cpuRam;
  const contextBytes = async (size: number) =>
    bytesOf(await insights.estimateContextResourceRequirementsV2({ ...shape, contextSize: size, modelGpuLayers }));
  const weights = bytesOf(await insights.estimateModelResourceRequirementsV2({ gpuLayers: modelGpuLayers }));
  const [one, two] = [await contextBytes(CONTEXT_STEP), await contextBytes(2 * CONTEXT_STEP)];
  // All windows grow by a step.
  const steps = Math.floor((freeBytes - weights - one) / Math.max(1, two - one)) + 1;
  const slots = Math.floor((steps * CONTEXT_STEP * sequences) / contextSize) - 1;
  const fits = [
    ...(steps > 0 ? [`contextTokens: ${steps * CONTEXT_STEP}`] : []),
    ...(slots > 0 ? [`slots: ${Math.min(slots, sequences - 2)}`] : []),
  ];
  return fits.length === 0 ? "no window fits beside its weights" : `${fits.join(" or ")} would fit`;
}

const NO_BINARY_HINT =
  "Install the project anew on the machine that runs it, or put the node beside llama-server (engine/README.md).";
const OTHER_BUILD_HINT =
  "a newer driver may help, or llama-server beside the node, built for this one (engine/README.md)";

/** Falls back to the CPU for `gpu: auto` if the accelerator cannot compute; else throws `EngineError` ENGINE_DOWN. */
async function loadWorkingBinary(
  library: LlamaLibrary,
  gpu: LlamaOptions["gpu"],
  threads: number,
  signal: AbortSignal,
): Promise<{ readonly llama: Llama; readonly notes: string[] }> {
  const llama = await loadBinary(library, gpu, threads);
  const fault = llama.gpu === false ? undefined : await acceleratorFault(llama.gpu, signal);
  if (fault === undefined) return { llama, notes: [] };
  await llama.dispose();
  const note = `llama.cpp cannot compute with ${llama.gpu} on this machine (${fault}); ${OTHER_BUILD_HINT}`;
  if (gpu !== "auto") throw new EngineError("ENGINE_DOWN", `${note}.`);
  return { llama: await loadBinary(library, false, threads), notes: [`${note}; the CPU computes instead`] };
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
