import { execFile } from "node:child_process";
import { join } from "node:path";
import { projectFolder } from "../../../../deploy/runtime/files/project-folder.ts";

/** How long a trial may take, in milliseconds: it takes some three seconds, and a driver may compile its kernels first. */
const TRIAL_MS = 60_000;
/** The most characters that are told of what llama.cpp says. */
const MAX_REASON = 200;
/** A model whose token costs nothing: what it tries is the build of the kernels, which all models share. */
const MODEL = join(projectFolder(), "engine/demo-model/random-tiny.gguf");

/** The program of the process that tries. It is given the accelerator, the model's path and the address of the library. */
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
 * Has a process of its own compute a token on an accelerator, as node-llama-cpp names it, and resolves to why llama.cpp ended
 * that process; undefined where it did not, whatever else befell it: what the library reports as an error, loading the model
 * reports, too. llama.cpp ends the process in which an accelerator's kernel cannot run, which is not seen before one does:
 * its build for CUDA loads with a driver that is older than the compiler of its kernels, and ends with the first token.
 */
export function acceleratorFault(gpu: string, signal: AbortSignal, program = PROGRAM): Promise<string | undefined> {
  const args = ["--input-type=module", "--eval", program, "--", gpu, MODEL, import.meta.resolve("node-llama-cpp")];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TRIAL_MS, killSignal: "SIGKILL", signal }, (error, _output, said) => {
      if (signal.aborted || !error?.signal) return resolve(undefined);
      const reason = /\w+ error: .*/.exec(said)?.[0].trim().slice(0, MAX_REASON);
      resolve(reason ?? (error.killed ? "no token came" : `its process ended with ${error.signal}`));
    });
  });
}
