import { type FairItem, FairQueue, type PriorityClass } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { callerLeft, EngineError, throwIfLeft } from "../../../errors.ts";

type QueueNews<Grant> =
  | { readonly kind: "granted"; readonly grant: Grant }
  | { readonly kind: "waiting"; readonly position: number };

type TicketOptions<Want, Grant> = {
  readonly claim: Claim;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly maxWaitMs: number;
  readonly queue: { position(of: QueueTicket<Want, Grant>): number; leave(ticket: QueueTicket<Want, Grant>): void };
};

/** One request's ticket in a queue. The holder calls `next` until it is granted or throws, and closes it in the end. */
class QueueTicket<Want, Grant> implements FairItem {
  readonly key: string;
  readonly priorityClass: PriorityClass;
  readonly rank: number;
  readonly cost: number;
  readonly want: Want;
  readonly #options: TicketOptions<Want, Grant>;
  readonly #cancelTimer: () => void;
  #outcome: { readonly grant: Grant } | { readonly error: EngineError } | undefined;
  #news = false;
  #wake: () => void = () => {};

  /** The ticket fails with QUEUE_FULL after `maxWaitMs` milliseconds, and when the caller leaves. */
  constructor(want: Want, options: TicketOptions<Want, Grant>) {
    const { tenant, priority, cost } = options.claim;
    this.key = tenant;
    this.priorityClass = classOf(priority);
    this.rank = priority;
    this.cost = cost;
    this.want = want;
    this.#options = options;
    this.#cancelTimer = options.clock.after(options.maxWaitMs, () =>
      this.fail(new EngineError("QUEUE_FULL", "No slot became free in time.")),
    );
    options.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Resolves with the grant, or after a change of position or a heartbeat. Throws `EngineError` once failed. */
  async next(): Promise<QueueNews<Grant>> {
    while (!this.#outcome && !this.#news) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    this.#news = false;
    if (!this.#outcome) return { kind: "waiting", position: this.position };
    if ("error" in this.#outcome) throw this.#outcome.error;
    return { kind: "granted", grant: this.#outcome.grant };
  }

  get position(): number {
    return Math.max(0, this.#options.queue.position(this));
  }

  /** Leaves the queue. Returns a grant that came too late to be used, which the caller must release. */
  close(): Grant | undefined {
    this.#settle();
    this.#options.queue.leave(this);
    return this.#outcome && "grant" in this.#outcome ? this.#outcome.grant : undefined;
  }

  fulfil(grant: Grant): void {
    this.#outcome = { grant };
    this.#settle();
  }

  /** An earlier grant stands. */
  fail(error: EngineError): void {
    this.#outcome ??= { error };
    this.#settle();
    this.#options.queue.leave(this);
  }

  beat(): void {
    this.#news = true;
    this.#wake();
  }

  #settle(): void {
    this.#cancelTimer();
    this.#options.signal.removeEventListener("abort", this.#onAbort);
    this.#wake();
  }

  readonly #onAbort = (): void => this.fail(callerLeft(this.#options.signal));
}

export type Claim = {
  readonly tenant: string;
  /** From 10 on `high`, down to -10 `low`, else `default`; within a class, a tenant's higher values go first. */
  readonly priority: number;
  /** Tokens that serving the request takes; above 0. */
  readonly cost: number;
};

type QueueOptions = {
  readonly maxLength: number;
  readonly maxWaitMs: number;
  readonly clock: Clock;
};

export class Queue<Want, Grant> {
  readonly #options: QueueOptions;
  readonly #waiting = new FairQueue<QueueTicket<Want, Grant>>();
  /** The positions of all tickets; undefined after a change, and computed on demand. */
  #positions: ReadonlyMap<QueueTicket<Want, Grant>, number> | undefined;
  #notifiesSoon = false;
  beats = 0;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#waiting.size;
  }

  wants(): readonly Want[] {
    return Array.from(this.#waiting.order(), ({ want }) => want);
  }

  /** A full queue evicts a request of the largest other tenant. Throws `EngineError` QUEUE_FULL if there is none. */
  join(want: Want, claim: Claim, signal: AbortSignal): QueueTicket<Want, Grant> {
    throwIfLeft(signal);
    this.#evictBeside(claim.tenant);
    const { clock, maxWaitMs } = this.#options;
    const ticket = new QueueTicket<Want, Grant>(want, { claim, signal, clock, maxWaitMs, queue: this });
    this.#waiting.push(ticket);
    this.#positions = undefined;
    return ticket;
  }

  serve(match: (want: Want) => Grant | undefined): void {
    const before = this.#waiting.size;
    for (const next of this.#waiting.order()) {
      const grant = match(next.want);
      if (grant === undefined) break;
      this.#waiting.take(next);
      next.fulfil(grant);
    }
    if (this.#waiting.size < before) this.#moved();
  }

  beat(): void {
    this.beats += 1;
    this.#notify();
  }

  close(error: EngineError): void {
    for (const ticket of this.#waiting.items()) ticket.fail(error);
  }

  #evictBeside(tenant: string): void {
    if (this.#waiting.size < this.#options.maxLength) return;
    const victim = this.#waiting.crowdBeside(tenant).at(-1);
    const full = new EngineError("QUEUE_FULL", "All slots are taken and the queue is full.");
    if (!victim) throw full;
    victim.fail(full);
  }

  leave(ticket: QueueTicket<Want, Grant>): void {
    if (this.#waiting.remove(ticket)) this.#moved();
  }

  position(ticket: QueueTicket<Want, Grant>): number {
    this.#positions ??= new Map(Array.from(this.#waiting.order(), (one, index) => [one, index]));
    return this.#positions.get(ticket) ?? 0;
  }

  /** Wakes the remaining requests after a change of positions, once per tick for all changes. */
  #moved(): void {
    this.#positions = undefined;
    if (this.#notifiesSoon) return;
    this.#notifiesSoon = true;
    queueMicrotask(() => {
      this.#notifiesSoon = false;
      this.#notify();
    });
  }

  #notify(): void {
    for (const ticket of this.#waiting.items()) ticket.beat();
  }
}

/** The least distance from 0 at which a priority changes the class; a smaller one orders the requests of its tenant. */
const CLASS_DISTANCE = 10;

function classOf(priority: number): PriorityClass {
  if (Math.abs(priority) < CLASS_DISTANCE) return "default";
  return priority > 0 ? "high" : "low";
}
