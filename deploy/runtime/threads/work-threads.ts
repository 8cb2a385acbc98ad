import { getHeapStatistics } from "node:v8";
import { type TransferListItem, Worker } from "node:worker_threads";
import { onAbort } from "../time/abort.ts";
import type { MonotonicClock } from "../time/clock.ts";

/** Heap size, in bytes, from which a thread is replaced: a new one has 15 MiB, long conversations leave 40 to 80. */
const GROWN_BYTES = 56 * 1024 * 1024;

export type ThreadReply = {
  /** Whether the thread's heap has grown so much that the thread should be replaced. Default: false. */
  readonly hasGrown?: boolean;
};

export function ofThisThread(): ThreadReply {
  return { hasGrown: getHeapStatistics().total_heap_size > GROWN_BYTES };
}

/** Least milliseconds between two progress signals. */
const SIGN_MS = 1_000;
/** Milliseconds after which half of a tenant's used time is forgiven. */
const HALF_LIFE_MS = 10_000;
/** Negligible used time, in milliseconds: an idle tenant is forgotten below it. */
const FORGOTTEN_MS = 1;

/** `given_up`: over its limits, or its thread crashed; `overflow`: too much waits; `left`: the caller has left. */
export type NotDone = "given_up" | "overflow" | "left" | "closed";

export class WorkNotDone extends Error {
  override readonly name = "WorkNotDone";
  readonly why: NotDone;

  constructor(why: NotDone) {
    super(`the work was not done: ${why}`);
    this.why = why;
  }
}

type WorkThreadsOptions = {
  readonly clock: MonotonicClock;
  /** Program of the threads. It answers every message with one message, in order, and sends no others. */
  readonly program: URL;
  /** Most threads, at least 1. One tenant occupies all but one of them, or the only one. */
  readonly threads: number;
  /** Threads that run from the start, at least 1: a later one takes 250 ms to start. Default: 1. */
  readonly readyThreads?: number;
  /** Heap limit of one thread, in MiB. A thread that exceeds it ends, and its work is given up. */
  readonly maxHeapMiB: number;
  readonly maxWaitingOfTenant?: number;
  readonly maxWaiting?: number;
  /** Idle time, in milliseconds, after which a worn thread is replaced, to free its garbage. Default: 0. */
  readonly restMs?: number;
};

export type WorkOrder = {
  readonly tenant: string;
  readonly signal: AbortSignal;
  /** Called on acceptance, then about once a second while any work completes; not while all threads are stuck. */
  readonly onMove?: () => void;
};

type WorkTerms = {
  /** Longest run time on a thread, in milliseconds. */
  readonly limitMs: number;
  /** Memory that is transferred to the thread instead of copied. Default: none. */
  readonly transfer?: readonly TransferListItem[];
  /** Whether the work is so large that its thread is replaced when it is idle. Default: false. */
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

/** Returns whether this Node can run a program from its TypeScript source, if it is one. */
export function canRun(program: URL): boolean {
  return (
    !program.pathname.endsWith(".ts") || ("typescript" in process.features && Boolean(process.features.typescript))
  );
}

/** Runs bounded work of callers off the event loop: never all threads for one tenant, the least used tenant first. */
export class WorkThreads<Message, Reply extends ThreadReply> {
  readonly #options: WorkThreadsOptions;
  readonly #threads = new Set<Thread<Message, Reply>>();
  readonly #tenants = new Map<string, Tenant<Message, Reply>>();
  waiting = 0;
  /** Pieces of work that have ended, in any way. */
  moves = 0;
  #signMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: WorkThreadsOptions) {
    this.#options = options;
    const { readyThreads = 1 } = options;
    for (let thread = 0; thread < readyThreads; thread += 1) this.#start();
  }

  /** Resolves to the thread's reply to `message`. Throws `WorkNotDone` if there is none. */
  run(message: Message, { tenant, signal, onMove = () => {} }: WorkOrder, terms: WorkTerms): Promise<Reply> {
    const { maxWaiting = Number.POSITIVE_INFINITY, maxWaitingOfTenant = Number.POSITIVE_INFINITY } = this.#options;
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new WorkNotDone("closed"));
      if (signal.aborted) return reject(new WorkNotDone("left"));
      const of = this.#tenant(tenant);
      if (of.waiting.length >= maxWaitingOfTenant || this.waiting >= maxWaiting)
        return reject(new WorkNotDone("overflow"));
      const stopListening = onAbort(signal, () => {
        this.#drop(job);
        reject(new WorkNotDone("left"));
      });
      const job: Job<Message, Reply> = {
        message,
        terms,
        tenant: of,
        onMove,
        resolve: (reply) => {
          stopListening();
          resolve(reply);
        },
        reject: (why) => {
          stopListening();
          reject(new WorkNotDone(why));
        },
      };
      of.waiting.push(job);
      this.waiting += 1;
      onMove();
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const { waiting } of this.#tenants.values()) for (const job of waiting.splice(0)) job.reject("closed");
    this.waiting = 0;
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
    this.waiting -= 1;
  }

  #next(): void {
    const { clock } = this.#options;
    while (this.waiting > 0 && !this.#closed) {
      const thread = this.#idle();
      const tenant = thread && this.#cheapest();
      const job = tenant?.waiting.shift();
      if (!thread || !tenant || !job) return;
      this.waiting -= 1;
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

  /** Returns the tenant with the least recently used time, of those with waiting work and an allowed thread. */
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

  /** Ends a worn thread when it stays idle; new work starts another one. */
  #rest(thread: Thread<Message, Reply>): void {
    const { clock, restMs = 0, readyThreads = 1 } = this.#options;
    if (!thread.isWorn || this.#closed) return;
    thread.stopTimer = clock.after(restMs, () => {
      this.#replace(thread);
      if (this.#threads.size < readyThreads) this.#start();
    });
  }

  /** Discards a thread that has died, is worn or stuck; more work starts another one. */
  #replace(thread: Thread<Message, Reply>): void {
    if (!this.#threads.delete(thread)) return;
    void thread.worker.terminate();
    this.#finish(thread)?.reject("given_up");
    this.#next();
  }

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

  /** Reports to all waiting callers that some work has ended, at most once per interval. */
  #moved(): void {
    this.moves += 1;
    const nowMs = this.#options.clock.nowMs();
    if (nowMs - this.#signMs < SIGN_MS) return;
    this.#signMs = nowMs;
    for (const { waiting } of this.#tenants.values()) for (const { onMove } of waiting) onMove();
    for (const { job } of this.#threads) job?.onMove();
  }
}
