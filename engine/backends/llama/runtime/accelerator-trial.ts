import { execFile } from "node:child_process";

/** How long a trial may take, in milliseconds: it reads the file's vocabulary, and a driver may compile its kernels first. */
const TRIAL_MS = 120_000;
/** The most characters that are told of what llama.cpp says. */
const MAX_REASON = 200;

/** What a trial is made with. */
export type Trial = {
  /** The accelerator, as the library names it. */
  readonly gpu: string;
  /** The path of the model's file. */
  readonly modelPath: string;
  /** The address of the library's module. */
  readonly library: string;
};

/**
 * The program of the process that tries: the last layer and the output behind it compute one token. It is given the fields
 * of `Trial`, in their order.
 */
const PROGRAM = `
  // The library starts a process that tries whether its binary loads, and that one is to run its own program.
  process.execArgv = [];
  const [gpu, modelPath, library] = process.argv.slice(1);
  const { getLlama } = await import(library);
  const llama = await getLlama({ gpu, build: "never", skipDownload: true, progressLogs: false, maxThreads: 1 });
  const model = await llama.loadModel({ modelPath, gpuLayers: 2, useMmap: true });
  const context = await model.createContext({ contextSize: 256, batchSize: 32, threads: 1 });
  const token = model.tokens.bos ?? model.tokens.eos ?? model.tokenize("a")[0];
  await context.getSequence().evaluate([token])[Symbol.asyncIterator]().next();
  process.exit(0);
`;

/**
 * Has a process of its own compute a token on an accelerator, and resolves to why that failed, or undefined where it did
 * not. llama.cpp ends the process in which an accelerator's kernel cannot run, which is not seen before one does: its build
 * for CUDA loads with a driver that is older than the compiler of its kernels, and ends with the first token.
 */
export function acceleratorFault(
  { gpu, modelPath, library }: Trial,
  signal: AbortSignal,
  program = PROGRAM,
): Promise<string | undefined> {
  const args = ["--input-type=module", "--eval", program, "--", gpu, modelPath, library];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TRIAL_MS, killSignal: "SIGKILL", signal }, (error, _output, said) => {
      if (!error) return resolve(undefined);
      const reason = /^.*?((?:\w+ )?error: .*)$/im.exec(said)?.[1] ?? (error.killed ? "it found no end" : undefined);
      resolve(reason?.trim().slice(0, MAX_REASON) ?? `its process ended with ${error.signal ?? error.code}`);
    });
  });
}
