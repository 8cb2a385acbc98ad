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
 * The bounds of one thread: its most memory, in MiB, and the time without work, in milliseconds, after which it ends if
 * its heap has grown.
 */
export const THREAD_BOUNDS = { maxHeapMiB: 256, restMs: 5_000 } as const;
/** The least number of threads, whatever the machine has: one is kept free of every tenant's work for the others. */
const MIN_THREADS = 2;
const MAX_THREADS = 4;
/** The most pieces of work of one tenant that may wait. */
const MAX_WAITING_OF_TENANT = 32;
const MAX_WAITING = 512;
/** The program of the threads; TypeScript where this file is. */
const PROGRAM = new URL(`./work-thread${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

/**
 * An error that says that work was given up: it took longer than its kind may, more memory than a thread has, or failed
 * by a fault of this program.
 */
export class WorkGivenUp extends Error {
  override readonly name = "WorkGivenUp";
}

/**
 * The end of a piece of work. `whole` is done; `partly` is done as far as its budget went; `refused` says that what the
 * caller sent cannot be used; `given_up` took too much time or memory; `failed` is a fault of this program.
 */
export type WorkEnd = {
  /** The kind of the work; `parse` is the reading of a model's output, which is done where tokens are handed out. */
  readonly kind: WorkKind | "parse";
  /** The way in which the work ended. */
  readonly outcome: "whole" | "partly" | "refused" | "given_up" | "failed";
  /** The facts about a fault of this program; undefined where there was none. */
  readonly fault?: CrashReport;
};

/** The settings that the threads are started with. */
export type CallerWorkOptions = {
  /** The clock that measures how long work takes. */
  readonly clock: MonotonicClock;
  /** The number of threads. Default: one less than the machine has cores, at least 2 and at most 4. */
  readonly threads?: number;
  /** The program of the threads. Default: the one beside this file; undefined where Node cannot run it. */
  readonly program?: URL | undefined;
  /** Called for every piece of work that has ended. Default: nobody is told. */
  readonly onEnd?: (end: WorkEnd) => void;
};

/**
 * Does the work that a caller's bytes cause, such as reading schemas, on threads beside the one that hands out
 * everybody's tokens. Each piece is bounded in time and memory. Several run at once, never all of them for one tenant,
 * and the next is of the tenant that has used the least time of late: who sends costly schemas waits for itself. Where
 * threads cannot be run, which is only from sources on old Node, the work is done at once and here.
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

  /** The number of pieces of work that wait for a thread. */
  get waiting(): number {
    return this.#threads?.waiting ?? 0;
  }

  /** The number of pieces of work that have come to an end, however they did. */
  get moves(): number {
    return this.#threads?.moves ?? 0;
  }

  /**
   * Resolves to the result of a piece of work. Throws `EngineError`: what the work itself throws, QUEUE_FULL where too
   * much waits already, and why the caller left. Throws `WorkGivenUp` where it takes too much time or memory, or fails
   * by a fault of this program.
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

  /** Notes a fault of this program in reading what a model wrote, which was then taken for text. */
  parseFailed(thrown: unknown): void {
    this.#onEnd({ kind: "parse", outcome: "failed", fault: crashReport(thrown) });
  }

  /** Ends the threads; what waits or runs fails with ENGINE_DOWN. */
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

  /** Does a piece of work on this thread, behind what waits for it to be taken in. */
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

  /** Returns the output in a reply. Throws the error that is in it instead, or `WorkGivenUp` for a fault. */
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
