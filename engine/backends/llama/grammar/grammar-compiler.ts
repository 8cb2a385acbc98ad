import { Worker } from "node:worker_threads";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { EngineError } from "../../../errors.ts";
import { throwIfLeft } from "../../caller-left.ts";
import { type GrammarInput, grammarOf } from "./grammar-input.ts";
import type { GrammarReply } from "./grammar-worker.ts";

/** A schema that takes longer is refused. */
const TIMEOUT_MS = 5000;
/** Memory of the thread, in MiB. */
const MAX_HEAP_MIB = 256;

/** Finds the program of a thread beside this file; undefined where Node cannot run it: TypeScript, before Node could. */
function programBeside(name: string): URL | undefined {
  const isSource = import.meta.url.endsWith(".ts");
  const runsSource = "typescript" in process.features && Boolean(process.features.typescript);
  return isSource && !runsSource ? undefined : new URL(`${name}${isSource ? ".ts" : ".js"}`, import.meta.url);
}

export type GrammarCompilerOptions = {
  readonly clock: Clock;
  /** The program of the thread. Default: the one beside this file. */
  readonly program?: URL | undefined;
};

type Job = {
  readonly input: GrammarInput;
  readonly signal: AbortSignal;
  readonly resolve: (grammar: string | undefined) => void;
  readonly reject: (error: EngineError) => void;
};

/**
 * Turns schemas into grammars on a thread of its own, one after the other, each within 5 s and 256 MiB: hostile schemas cost
 * nobody else's tokens. Where the thread cannot be run, which is only from sources on old Node, the work is done here.
 */
export class GrammarCompiler {
  readonly #clock: Clock;
  readonly #program: URL | undefined;
  readonly #jobs: Job[] = [];
  #worker: Worker | undefined;
  #running: { readonly job: Job; readonly stopTimer: () => void } | undefined;
  #closed = false;

  constructor(options: GrammarCompilerOptions) {
    this.#clock = options.clock;
    this.#program = "program" in options ? options.program : programBeside("./grammar-worker");
    this.#start();
  }

  /** GBNF, or undefined where nothing is fixed. Throws `EngineError` INVALID_SCHEMA, or why the caller left. */
  compile(input: GrammarInput, signal: AbortSignal): Promise<string | undefined> {
    if (!this.#program) return new Promise((resolve) => resolve(grammarOf(input)));
    return new Promise((resolve, reject) => {
      this.#jobs.push({ input, signal, resolve, reject });
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const gone = new EngineError("ENGINE_DOWN", "The engine is stopping.");
    for (const { reject } of this.#jobs.splice(0)) reject(gone);
    this.#fail(gone);
    await this.#worker?.terminate();
  }

  #start(): Worker | undefined {
    if (!this.#program) return undefined;
    const worker = new Worker(this.#program, { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB } });
    worker.unref();
    worker.on("message", (reply: GrammarReply) => {
      const done = this.#take();
      if ("grammar" in reply) done?.resolve(reply.grammar);
      else done?.reject(new EngineError(reply.error.reason, reply.error.message, reply.error.facts));
      this.#next();
    });
    worker.on("exit", () => this.#replace(worker, "The schema is too complex.", undefined));
    worker.on("error", (cause) => this.#replace(worker, "The schema is too complex.", cause));
    this.#worker = worker;
    return worker;
  }

  #next(): void {
    if (this.#running) return;
    const job = this.#jobs.shift();
    if (!job) return;
    try {
      throwIfLeft(job.signal);
    } catch (error) {
      job.reject(error as EngineError); // it throws nothing else
      this.#next();
      return;
    }
    const worker = this.#worker ?? this.#start();
    if (!worker) return;
    const stopTimer = this.#clock.after(TIMEOUT_MS, () =>
      this.#replace(worker, "The schema takes too long to turn into a grammar.", undefined),
    );
    this.#running = { job, stopTimer };
    worker.postMessage(job.input);
  }

  /** Gives up a thread that has died or does not come to an end; the next job gets a new one. */
  #replace(worker: Worker, what: string, cause: unknown): void {
    if (worker !== this.#worker || this.#closed) return;
    void worker.terminate();
    this.#worker = undefined;
    this.#fail(new EngineError("INVALID_SCHEMA", what, {}, cause));
    this.#next();
  }

  #fail(error: EngineError): void {
    this.#take()?.reject(error);
  }

  #take(): Job | undefined {
    const running = this.#running;
    running?.stopTimer();
    this.#running = undefined;
    return running?.job;
  }
}
