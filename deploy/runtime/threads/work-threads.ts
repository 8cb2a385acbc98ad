import { type TransferListItem, Worker } from "node:worker_threads";
import { onAbort } from "../time/abort.ts";
import type { MonotonicClock } from "../time/clock.ts";
import type { ThreadReply } from "./grown-heap.ts";

/** The shortest time between two signs to those who wait, in milliseconds. */
const SIGN_MS = 1_000;
/** The time after which half of what a tenant has used is forgiven, in milliseconds. */
const HALF_LIFE_MS = 10_000;
/** The used time that is as good as none, in milliseconds: a tenant without work is forgotten below it. */
const FORGOTTEN_MS = 1;

/**
 * Why a piece of work has no result. `given_up` took longer or more memory than it may, or brought its thread down;
 * `overflow` found too much work waiting; `left` says that nobody waits for it any more; `closed` that the threads have
 * ended.
 */
export type NotDone = "given_up" | "overflow" | "left" | "closed";

/** The error of a piece of work that has no result, with the reason. */
export class WorkNotDone extends Error {
  override readonly name = "WorkNotDone";
  /** Why there is no result. */
  readonly why: NotDone;

  constructor(why: NotDone) {
    super(`the work was not done: ${why}`);
    this.why = why;
  }
}

/** The settings of threads. */
export type WorkThreadsOptions = {
  /** The clock that measures how long work takes. */
  readonly clock: MonotonicClock;
  /**
   * The program of the threads. It answers every message with one message, in their order, and never on its own
   * account.
   */
  readonly program: URL;
  /** The most threads, at least 1. All but one of them may work for the same tenant, or the only one. */
  readonly threads: number;
  /**
   * The threads that are there from the start, at least 1: a later one takes a quarter of a second to start, for which
   * its first work waits, and some 25 MiB. Default: 1.
   */
  readonly readyThreads?: number;
  /** The most memory of the objects of one thread, in MiB. A thread that needs more ends, and its work is given up. */
  readonly maxHeapMiB: number;
  /** The most pieces of work of one tenant that may wait. Default: no limit. */
  readonly maxWaitingOfTenant?: number;
  /** The most pieces of work that may wait altogether. Default: no limit. */
  readonly maxWaiting?: number;
  /**
   * The time without work, in milliseconds, after which a thread that has done large work, or says that its heap has
   * grown, gives way to a new one: what that work left behind is gone with it. Default: 0.
   */
  readonly restMs?: number;
};

/** The order of a piece of work: whose work it is, and who waits for it. */
export type WorkOrder = {
  /** The tenant whose bytes cause the work. */
  readonly tenant: string;
  /** The signal that is aborted when nobody waits for the work any more. */
  readonly signal: AbortSignal;
  /**
   * Called when the work is taken in, and then about once a second as long as the threads get on with any work: what
   * waits is not forgotten. Threads that do not come to an end make it go silent. Default: nobody is told.
   */
  readonly onMove?: () => void;
};

/** What the threads need to know of a piece of work beside its order. */
export type WorkTerms = {
  /** The longest that the work may take once a thread has it, in milliseconds. */
  readonly limitMs: number;
  /** The memory that goes over to the thread with the message instead of being copied. Default: none. */
  readonly transfer?: readonly TransferListItem[];
  /** Whether the work is so large that its thread is not kept when it has no more to do. Default: it is kept. */
  readonly large?: boolean;
};

type Job<Message, Reply> = {
  readonly message: Message;
  readonly terms: WorkTerms;
  readonly tenant: Tenant<Message, Reply>;
  readonly onMove: () => void;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (why: NotDone) => void;
};
type Thread<Message, Reply> = {
  readonly worker: Worker;
  job: Job<Message, Reply> | undefined;
  isWorn: boolean;
  stopTimer: () => void;
  sinceMs: number;
};
type Tenant<Message, Reply> = {
  readonly waiting: Job<Message, Reply>[];
  running: number;
  usedMs: number;
  atMs: number;
};

/** Returns whether this Node can run a program from its source, if it is TypeScript. */
export function canRun(program: URL): boolean {
  return (
    !program.pathname.endsWith(".ts") || ("typescript" in process.features && Boolean(process.features.typescript))
  );
}

/**
 * Does work that callers cause on threads beside the one that serves everybody. Each piece is bounded in time and
 * memory. Several run at once, never all of them for one tenant, and the next is of the tenant that has used the least
 * time of late: who causes costly work waits for itself.
 */
export class WorkThreads<Message, Reply extends ThreadReply> {
  readonly #options: WorkThreadsOptions;
  readonly #threads = new Set<Thread<Message, Reply>>();
  readonly #tenants = new Map<string, Tenant<Message, Reply>>();
  #waiting = 0;
  #moves = 0;
  #signMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: WorkThreadsOptions) {
    this.#options = options;
    const { readyThreads = 1 } = options;
    for (let thread = 0; thread < readyThreads; thread += 1) this.#start();
  }

  /** The number of pieces of work that wait for a thread. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The number of pieces of work that have come to an end, however they did. */
  get moves(): number {
    return this.#moves;
  }

  /** Resolves to what a thread answers to `message`. Throws `WorkNotDone` where it does not. */
  run(message: Message, { tenant, signal, onMove = () => {} }: WorkOrder, terms: WorkTerms): Promise<Reply> {
    const { maxWaiting = Number.POSITIVE_INFINITY, maxWaitingOfTenant = Number.POSITIVE_INFINITY } = this.#options;
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new WorkNotDone("closed"));
      if (signal.aborted) return reject(new WorkNotDone("left"));
      const of = this.#tenant(tenant);
      if (of.waiting.length >= maxWaitingOfTenant || this.#waiting >= maxWaiting)
        return reject(new WorkNotDone("overflow"));
      const letGo = onAbort(signal, () => {
        this.#drop(job);
        reject(new WorkNotDone("left"));
      });
      const job: Job<Message, Reply> = {
        message,
        terms,
        tenant: of,
        onMove,
        resolve: (reply) => {
          letGo();
          resolve(reply);
        },
        reject: (why) => {
          letGo();
          reject(new WorkNotDone(why));
        },
      };
      of.waiting.push(job);
      this.#waiting += 1;
      onMove();
      this.#next();
    });
  }

  /** Ends the threads; what waits or runs is not done. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { waiting } of this.#tenants.values()) for (const job of waiting.splice(0)) job.reject("closed");
    this.#waiting = 0;
    const threads = [...this.#threads];
    this.#threads.clear();
    for (const thread of threads) this.#finish(thread)?.reject("closed");
    await Promise.all(threads.map(({ worker }) => worker.terminate()));
  }

  #tenant(name: string): Tenant<Message, Reply> {
    const known = this.#tenants.get(name);
    if (known) return known;
    const tenant = { waiting: [], running: 0, usedMs: 0, atMs: this.#options.clock.nowMs() };
    this.#tenants.set(name, tenant);
    return tenant;
  }

  #drop(job: Job<Message, Reply>): void {
    const at = job.tenant.waiting.indexOf(job);
    if (at < 0) return;
    job.tenant.waiting.splice(at, 1);
    this.#waiting -= 1;
  }

  /** Gives work to threads that have none, as long as there is both. */
  #next(): void {
    const { clock } = this.#options;
    while (this.#waiting > 0 && !this.#closed) {
      const thread = this.#idle();
      const tenant = thread && this.#cheapest();
      const job = tenant?.waiting.shift();
      if (!thread || !tenant || !job) return;
      this.#waiting -= 1;
      tenant.running += 1;
      thread.stopTimer();
      thread.job = job;
      thread.isWorn ||= job.terms.large === true;
      thread.sinceMs = clock.nowMs();
      thread.stopTimer = clock.after(job.terms.limitMs, () => this.#replace(thread));
      thread.worker.postMessage(job.message, job.terms.transfer ?? []);
    }
  }

  #idle(): Thread<Message, Reply> | undefined {
    for (const thread of this.#threads) if (!thread.job) return thread;
    return this.#threads.size < this.#options.threads ? this.#start() : undefined;
  }

  /** Finds whose turn it is: of those with waiting work and a thread to take, who has used the least time of late. */
  #cheapest(): Tenant<Message, Reply> | undefined {
    const most = Math.max(1, this.#options.threads - 1);
    let cheapest: Tenant<Message, Reply> | undefined;
    for (const [name, tenant] of this.#tenants) {
      this.#forgive(tenant);
      if (tenant.waiting.length > 0) {
        if (tenant.running >= most) continue;
        if (!cheapest || tenant.usedMs < cheapest.usedMs) cheapest = tenant;
      } else if (tenant.running === 0 && tenant.usedMs < FORGOTTEN_MS) this.#tenants.delete(name);
    }
    return cheapest;
  }

  #forgive(tenant: Tenant<Message, Reply>): void {
    const nowMs = this.#options.clock.nowMs();
    tenant.usedMs *= 2 ** ((tenant.atMs - nowMs) / HALF_LIFE_MS);
    tenant.atMs = nowMs;
  }

  #start(): Thread<Message, Reply> {
    const { program, maxHeapMiB } = this.#options;
    const worker = new Worker(program, { resourceLimits: { maxOldGenerationSizeMb: maxHeapMiB } });
    worker.unref();
    const thread: Thread<Message, Reply> = { worker, job: undefined, isWorn: false, sinceMs: 0, stopTimer: () => {} };
    worker.on("message", (reply: Reply) => {
      thread.isWorn ||= reply.hasGrown === true;
      this.#finish(thread)?.resolve(reply);
      this.#rest(thread);
      this.#next();
    });
    worker.on("error", () => this.#replace(thread));
    worker.on("exit", () => this.#replace(thread));
    this.#threads.add(thread);
    return thread;
  }

  /** Lets a worn thread end when no work comes for a while; the next work finds a thread all the same. */
  #rest(thread: Thread<Message, Reply>): void {
    const { clock, restMs = 0, readyThreads = 1 } = this.#options;
    if (!thread.isWorn || this.#closed) return;
    thread.stopTimer = clock.after(restMs, () => {
      this.#replace(thread);
      if (this.#threads.size < readyThreads) this.#start();
    });
  }

  /** Gives up a thread that has died, gives way to a new one or does not come to an end; more work gets a new one. */
  #replace(thread: Thread<Message, Reply>): void {
    if (!this.#threads.delete(thread)) return;
    void thread.worker.terminate();
    this.#finish(thread)?.reject("given_up");
    this.#next();
  }

  /** Takes the work off a thread and charges its tenant for the time. */
  #finish(thread: Thread<Message, Reply>): Job<Message, Reply> | undefined {
    const { job } = thread;
    thread.stopTimer();
    thread.job = undefined;
    if (!job) return undefined;
    this.#forgive(job.tenant);
    job.tenant.running -= 1;
    job.tenant.usedMs += this.#options.clock.nowMs() - thread.sinceMs;
    this.#moved();
    return job;
  }

  /** Tells all who wait that a piece of work has come to an end, though not of each one. */
  #moved(): void {
    this.#moves += 1;
    const nowMs = this.#options.clock.nowMs();
    if (nowMs - this.#signMs < SIGN_MS) return;
    this.#signMs = nowMs;
    for (const { waiting } of this.#tenants.values()) for (const { onMove } of waiting) onMove();
    for (const { job } of this.#threads) job?.onMove();
  }
}
