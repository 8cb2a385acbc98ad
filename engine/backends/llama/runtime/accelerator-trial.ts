import { execFile } from "node:child_process";
import { join } from "node:path";
import { projectFolder } from "../../../../deploy/runtime/files/project-folder.ts";

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
