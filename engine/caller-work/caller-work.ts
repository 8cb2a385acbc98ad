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
import { callerLeft } from "../backends/caller-left.ts";
import { EngineError } from "../errors.ts";
import { WORK, type WorkInput, type WorkKind, type WorkOutput } from "./work-kinds.ts";
import { replyTo, type WorkMessage, type WorkReply } from "./work-reply.ts";

/**
 * The limits of one thread: its heap, in MiB, and the idle time, in milliseconds, after which it ends if its heap has
 * grown.
 */
export const THREAD_BOUNDS = { maxHeapMiB: 256, restMs: 5_000 } as const;
/** The least number of threads on any machine: one stays free of the busiest tenant's jobs. */
const MIN_THREADS = 2;
const MAX_THREADS = 4;
const MAX_WAITING_OF_TENANT = 32;
const MAX_WAITING = 512;
/** The program of the threads; TypeScript if this file is. */
const PROGRAM = new URL(`./work-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/** Thrown for a job that was given up: it exceeded its time or memory limit, or failed by a fault of this program. */
export class WorkGivenUp extends Error {
  override readonly name = "WorkGivenUp";
}

/**
 * The end of a job. `whole` is complete; `partly` is complete up to its budget; `refused` means that the caller's input
 * is invalid; `given_up` exceeded its time or memory limit; `failed` is a fault of this program.
 */
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
  /** Called for every finished job. */
  readonly onEnd?: (end: WorkEnd) => void;
};

/**
 * Runs the jobs that callers' input causes, such as reading schemas, on worker threads beside the main thread, which
 * streams all tokens. Each job is bounded in time and memory. Several run at once, but never all for one tenant, and
 * the next is of the tenant with the least recent usage: costly schemas delay their own tenant. If threads are not
 * available, which is only with sources on old Node versions, jobs run on the main thread.
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

  /** The number of finished jobs, with any outcome. */
  get moves(): number {
    return this.#threads?.moves ?? 0;
  }

  /**
   * Resolves to the result of a job. Throws the job's own `EngineError`, QUEUE_FULL if the queue is full, or the reason
   * why the caller left. Throws `WorkGivenUp` if the job exceeds its limits or fails by a fault of this program.
   */
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

  /** Ends the threads; waiting and running jobs fail with ENGINE_DOWN. */
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

  /** Runs a job on this thread, after events that are already queued. */
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

  /** Returns the output in a reply. Throws its error, or `WorkGivenUp` for a fault. */
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
