import { execFile } from "node:child_process";
import { join } from "node:path";
import { projectFolder } from "../../../../deploy/runtime/files/project-folder.ts";

/**
 * The time limit of a trial, in milliseconds. It takes about three seconds, but a driver may compile its kernels first.
 */
const TRIAL_MS = 60_000;
/** The most characters of llama.cpp's error message that are reported. */
const MAX_REASON = 200;
/** A tiny model: the trial tests the build of the kernels, which all models share. */
const MODEL = join(projectFolder(), "engine/demo-model/random-tiny.gguf");

/**
 * The program of the trial process. Its arguments are the accelerator, the path of the model and the URL of the
 * library.
 */
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
 * Computes one token on an accelerator, named as in node-llama-cpp, in a separate process. Resolves to the reason why
 * llama.cpp crashed that process; undefined if it did not crash, also after other errors, which loading the model
 * reports, too. llama.cpp aborts the process if a kernel of an accelerator cannot run, and only when one first runs:
 * its CUDA build loads with a driver that is too old for its kernels, and aborts at the first token.
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
