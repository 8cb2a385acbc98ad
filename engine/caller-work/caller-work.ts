import { availableParallelism } from "node:os";
import { setImmediate } from "node:timers/promises";
import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import {
  canRun,
  type NotDone,
  WorkNotDone,
  type WorkOrder,
  WorkThreads,
} from "../../deploy/runtime/threads/work-threads.ts";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { callerLeft, EngineError } from "../errors.ts";
import {
  replyTo,
  WORK,
  type WorkInput,
  type WorkKind,
  type WorkMessage,
  type WorkOutput,
  type WorkReply,
} from "./work-kinds.ts";

/** Of one thread: its heap, in MiB, and the idle time, in milliseconds, after which a grown one ends. */
export const THREAD_BOUNDS = { maxHeapMiB: 256, restMs: 5_000 } as const;
/** The least number of threads on any machine: one stays free of the busiest tenant's jobs. */
const MIN_THREADS = 2;
const MAX_THREADS = 4;
const MAX_WAITING_OF_TENANT = 32;
const MAX_WAITING = 512;
const PROGRAM = new URL(`./work-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/** Thrown for a job that was given up: it exceeded its time or memory limit, or failed by a fault of this program. */
export class WorkGivenUp extends Error {
  override readonly name = "WorkGivenUp";
}

/** `partly`: complete up to its budget; `refused`: invalid input; `given_up`: over its limits; `failed`: our fault. */
export type WorkEnd = {
  /** The kind of the job; `parse` is the parsing of model output, which runs on the main thread. */
  readonly kind: WorkKind | "parse";
  readonly outcome: "whole" | "partly" | "refused" | "given_up" | "failed";
  readonly fault?: CrashReport;
};

export type CallerWorkOptions = {
  readonly clock: MonotonicClock;
  /** The number of threads. Default: one less than the machine has cores, at least 2 and at most 4. */
  readonly threads?: number;
  /** The program of the threads. Default: the one beside this file; undefined if Node cannot run it. */
  readonly program?: URL | undefined;
  readonly onEnd?: (end: WorkEnd) => void;
};

/**
 * Runs jobs that callers' input causes on worker threads, beside the main thread, which streams all tokens; on the main
 * thread where Node cannot run the program.
 */
export class CallerWork {
  readonly #threads: WorkThreads<WorkMessage, WorkReply> | undefined;
  readonly #onEnd: (end: WorkEnd) => void;

  constructor({ clock, threads, onEnd = () => {}, ...options }: CallerWorkOptions) {
    const cores = Math.min(MAX_THREADS, Math.max(MIN_THREADS, availableParallelism() - 1));
    const count = threads ?? cores;
    const program = "program" in options ? options.program : PROGRAM;
    this.#onEnd = onEnd;
    this.#threads =
      program && canRun(program)
        ? new WorkThreads({
            ...{ clock, program, threads: count, readyThreads: count },
            ...THREAD_BOUNDS,
            ...{ maxWaitingOfTenant: MAX_WAITING_OF_TENANT, maxWaiting: MAX_WAITING },
          })
        : undefined;
  }

  get waiting(): number {
    return this.#threads?.waiting ?? 0;
  }

  get moves(): number {
    return this.#threads?.moves ?? 0;
  }

  /** Throws the job's own `EngineError`, QUEUE_FULL, why the caller left, or `WorkGivenUp`. */
  async run<Kind extends WorkKind>(kind: Kind, input: WorkInput<Kind>, order: WorkOrder): Promise<WorkOutput<Kind>> {
    if (!this.#threads) return this.#here(kind, input, order);
    let reply: WorkReply;
    try {
      reply = await this.#threads.run({ kind, input }, order, { limitMs: WORK[kind].limitMs });
    } catch (error) {
      throw error instanceof WorkNotDone ? this.#notDone(error.why, kind, order.signal) : error;
    }
    return this.#outputOf(kind, reply);
  }

  /** Records a fault of this program in parsing model output, which was then treated as text. */
  parseFailed(thrown: unknown): void {
    this.#onEnd({ kind: "parse", outcome: "failed", fault: crashReport(thrown) });
  }

  async close(): Promise<void> {
    await this.#threads?.close();
  }

  #notDone(why: NotDone, kind: WorkKind, signal: AbortSignal): EngineError | WorkGivenUp {
    switch (why) {
      case "overflow":
        return new EngineError("QUEUE_FULL", "Too much of what callers sent waits to be read.");
      case "left":
        return callerLeft(signal);
      case "closed":
        return new EngineError("ENGINE_DOWN", "The engine is stopping.");
      case "given_up":
        this.#onEnd({ kind, outcome: "given_up" });
        return new WorkGivenUp();
    }
  }

  async #here<Kind extends WorkKind>(
    kind: Kind,
    input: WorkInput<Kind>,
    { signal, onMove }: WorkOrder,
  ): Promise<WorkOutput<Kind>> {
    onMove?.();
    await setImmediate();
    if (signal.aborted) throw callerLeft(signal);
    return this.#outputOf(kind, replyTo({ kind, input }));
  }

  #outputOf<Kind extends WorkKind>(kind: Kind, reply: WorkReply): WorkOutput<Kind> {
    if ("fault" in reply) {
      this.#onEnd({ kind, outcome: "failed", fault: reply.fault });
      throw new WorkGivenUp();
    }
    if ("error" in reply) {
      this.#onEnd({ kind, outcome: "refused" });
      throw new EngineError(reply.error.reason, reply.error.message, reply.error.facts);
    }
    const output = reply.output as WorkOutput<Kind>; // what a thread answers to this kind
    const isWhole = WORK[kind].isWhole as (of: WorkOutput<Kind>) => boolean; // the row of this kind
    this.#onEnd({ kind, outcome: isWhole(output) ? "whole" : "partly" });
    return output;
  }
}
