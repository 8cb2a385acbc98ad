import { availableParallelism } from "node:os";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { type CrashReport, crashReport } from "../../deploy/runtime/process/end-on-crash.ts";
import { onAbort } from "../../deploy/runtime/time/abort.ts";
import type { MonotonicClock } from "../../deploy/runtime/time/clock.ts";
import { callerLeft } from "../backends/caller-left.ts";
import { EngineError } from "../errors.ts";
import { WORK, type WorkInput, type WorkKind, type WorkOutput } from "./work-kinds.ts";
import { replyTo, type WorkReply } from "./work-reply.ts";

/** The most memory of one thread, in MiB. */
const MAX_HEAP_MIB = 256;
/** The least number of threads, whatever the machine has: one is kept free of every tenant's work for the others. */
const MIN_THREADS = 2;
const MAX_THREADS = 4;
/** The most pieces of work of one tenant that may wait. */
const MAX_WAITING_OF_TENANT = 32;
const MAX_WAITING = 512;
/** The shortest time between two signs to those who wait, in milliseconds. */
const SIGN_MS = 1_000;
/** The time after which half of what a tenant has used is forgiven, in milliseconds. */
const HALF_LIFE_MS = 10_000;
/** The used time that is as good as none, in milliseconds: a tenant without work is forgotten below it. */
const FORGOTTEN_MS = 1;

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

/** The order of a piece of work: whose work it is, and who waits for it. */
export type WorkOrder = {
  /** The tenant whose bytes cause the work. */
  readonly tenant: string;
  /** The signal that is aborted when nobody waits for the work any more. */
  readonly signal: AbortSignal;
  /**
   * Called when the work is taken in, and then about once a second as long as the threads get on with any work: what
   * waits is not forgotten. Threads that do not come to an end make it go silent.
   */
  readonly onMove?: () => void;
};

type Job = {
  readonly kind: WorkKind;
  readonly input: unknown;
  readonly tenant: Tenant;
  readonly onMove: () => void;
  readonly resolve: (output: unknown) => void;
  readonly reject: (error: Error) => void;
};
type Thread = { readonly worker: Worker; job: Job | undefined; stopTimer: () => void; sinceMs: number };
type Tenant = { readonly waiting: Job[]; running: number; usedMs: number; atMs: number };

/** Finds the program beside this file; undefined where Node cannot run it: TypeScript, before Node could. */
function programBeside(): URL | undefined {
  const isSource = import.meta.url.endsWith(".ts");
  const runsSource = "typescript" in process.features && Boolean(process.features.typescript);
  return isSource && !runsSource ? undefined : new URL(`./work-thread${isSource ? ".ts" : ".js"}`, import.meta.url);
}

/**
 * Does the work that a caller's bytes cause, such as reading schemas, on threads beside the one that hands out
 * everybody's tokens. Each piece is bounded in time and memory. Several run at once, never all of them for one tenant,
 * and the next is of the tenant that has used the least time of late: who sends costly schemas waits for itself. Where
 * threads cannot be run, which is only from sources on old Node, the work is done at once and here.
 */
export class CallerWork {
  readonly #clock: MonotonicClock;
  readonly #program: URL | undefined;
  readonly #size: number;
  readonly #onEnd: (end: WorkEnd) => void;
  readonly #threads = new Set<Thread>();
  readonly #tenants = new Map<string, Tenant>();
  #waiting = 0;
  #moves = 0;
  #signMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: CallerWorkOptions) {
    const cores = Math.min(MAX_THREADS, Math.max(MIN_THREADS, availableParallelism() - 1));
    this.#clock = options.clock;
    this.#size = options.threads ?? cores;
    this.#onEnd = options.onEnd ?? (() => {});
    this.#program = "program" in options ? options.program : programBeside();
    // The first is there before anybody waits for it.
    if (this.#program) this.#start(this.#program);
  }

  /** The number of pieces of work that wait for a thread. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The number of pieces of work that have come to an end, however they did. */
  get moves(): number {
    return this.#moves;
  }

  /**
   * Resolves to the result of a piece of work. Throws `EngineError`: what the work itself throws, QUEUE_FULL where too
   * much waits already, and why the caller left. Throws `WorkGivenUp` where it takes too much time or memory, or fails
   * by a fault of this program.
   */
  run<Kind extends WorkKind>(kind: Kind, input: WorkInput<Kind>, order: WorkOrder): Promise<WorkOutput<Kind>> {
    if (!this.#program) return this.#here(kind, input, order);
    const { tenant, signal, onMove = () => {} } = order;
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(stopping());
      if (signal.aborted) return reject(callerLeft(signal));
      const of = this.#tenant(tenant);
      if (of.waiting.length >= MAX_WAITING_OF_TENANT || this.#waiting >= MAX_WAITING)
        return reject(new EngineError("QUEUE_FULL", "Too much of what callers sent waits to be read."));
      const letGo = onAbort(signal, () => {
        this.#drop(job);
        reject(callerLeft(signal));
      });
      const job: Job = {
        kind,
        input,
        tenant: of,
        onMove,
        resolve: (output) => {
          letGo();
          resolve(output as WorkOutput<Kind>); // what the thread answers to this kind
        },
        reject: (error) => {
          letGo();
          reject(error);
        },
      };
      of.waiting.push(job);
      this.#waiting += 1;
      onMove();
      this.#next();
    });
  }

  /** Notes a fault of this program in reading what a model wrote, which was then taken for text. */
  parseFailed(thrown: unknown): void {
    this.#onEnd({ kind: "parse", outcome: "failed", fault: crashReport(thrown) });
  }

  /** Ends the threads; what waits or runs fails with ENGINE_DOWN. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { waiting } of this.#tenants.values()) for (const job of waiting.splice(0)) job.reject(stopping());
    this.#waiting = 0;
    const threads = [...this.#threads];
    this.#threads.clear();
    for (const thread of threads) this.#finish(thread)?.reject(stopping());
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  #tenant(name: string): Tenant {
    const known = this.#tenants.get(name);
    if (known) return known;
    const tenant = { waiting: [], running: 0, usedMs: 0, atMs: this.#clock.nowMs() };
    this.#tenants.set(name, tenant);
    return tenant;
  }

  #drop(job: Job): void {
    const at = job.tenant.waiting.indexOf(job);
    if (at < 0) return;
    job.tenant.waiting.splice(at, 1);
    this.#waiting -= 1;
  }

  /** Gives work to threads that have none, as long as there is both. */
  #next(): void {
    while (this.#waiting > 0 && !this.#closed) {
      const thread = this.#idle();
      const tenant = thread && this.#cheapest();
      const job = tenant?.waiting.shift();
      if (!thread || !tenant || !job) return;
      this.#waiting -= 1;
      tenant.running += 1;
      thread.job = job;
      thread.sinceMs = this.#clock.nowMs();
      thread.stopTimer = this.#clock.after(WORK[job.kind].limitMs, () => this.#replace(thread));
      thread.worker.postMessage({ kind: job.kind, input: job.input });
    }
  }

  #idle(): Thread | undefined {
    for (const thread of this.#threads) if (!thread.job) return thread;
    return this.#program && this.#threads.size < this.#size ? this.#start(this.#program) : undefined;
  }

  /** Finds whose turn it is: of those with waiting work and a thread to take, who has used the least time of late. */
  #cheapest(): Tenant | undefined {
    const most = Math.max(1, this.#size - 1);
    let cheapest: Tenant | undefined;
    for (const [name, tenant] of this.#tenants) {
      this.#forgive(tenant);
      if (tenant.waiting.length > 0) {
        if (tenant.running < most && (!cheapest || tenant.usedMs < cheapest.usedMs)) cheapest = tenant;
      } else if (tenant.running === 0 && tenant.usedMs < FORGOTTEN_MS) this.#tenants.delete(name);
    }
    return cheapest;
  }

  #forgive(tenant: Tenant): void {
    const nowMs = this.#clock.nowMs();
    tenant.usedMs *= 2 ** ((tenant.atMs - nowMs) / HALF_LIFE_MS);
    tenant.atMs = nowMs;
  }

  #start(program: URL): Thread {
    const worker = new Worker(program, { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB } });
    worker.unref();
    const thread: Thread = { worker, job: undefined, stopTimer: () => {}, sinceMs: 0 };
    worker.on("message", (reply: WorkReply) => {
      const job = this.#finish(thread);
      try {
        if (job) job.resolve(this.#outputOf(job.kind, reply));
      } catch (error) {
        job?.reject(error as Error); // nothing else is thrown there
      }
      this.#next();
    });
    worker.on("error", () => this.#replace(thread));
    worker.on("exit", () => this.#replace(thread));
    this.#threads.add(thread);
    return thread;
  }

  /** Gives up a thread that has died or does not come to an end; the next piece of work gets a new one. */
  #replace(thread: Thread): void {
    if (!this.#threads.delete(thread)) return;
    void thread.worker.terminate();
    const job = this.#finish(thread);
    if (job) this.#onEnd({ kind: job.kind, outcome: "given_up" });
    job?.reject(new WorkGivenUp());
    this.#next();
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

  /** Takes the work off a thread and charges its tenant for the time. */
  #finish(thread: Thread): Job | undefined {
    const { job } = thread;
    thread.stopTimer();
    thread.job = undefined;
    if (!job) return undefined;
    this.#forgive(job.tenant);
    job.tenant.running -= 1;
    job.tenant.usedMs += this.#clock.nowMs() - thread.sinceMs;
    this.#moved();
    return job;
  }

  /** Tells all who wait that a piece of work has come to an end, though not of each one. */
  #moved(): void {
    this.#moves += 1;
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#signMs < SIGN_MS) return;
    this.#signMs = nowMs;
    for (const { waiting } of this.#tenants.values()) for (const { onMove } of waiting) onMove();
    for (const { job } of this.#threads) job?.onMove();
  }
}

function stopping(): EngineError {
  return new EngineError("ENGINE_DOWN", "The engine is stopping.");
}
