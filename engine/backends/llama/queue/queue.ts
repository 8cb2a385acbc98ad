import { FairQueue, type PriorityClass } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { EngineError } from "../../../errors.ts";
import { throwIfLeft } from "../../caller-left.ts";
import { QueueTicket } from "./queue-ticket.ts";

export type Claim = {
  readonly tenant: string;
  /** 0 is the default class, values above it are `high` and below `low`; within a class higher values go first. */
  readonly priority: number;
  /** Tokens that serving the request takes; above 0. */
  readonly cost: number;
};

export type QueueOptions = {
  readonly maxLength: number;
  readonly maxWaitMs: number;
  readonly clock: Clock;
};

/** A queue of requests for slots, fair between tenants and bounded in length and time. */
export class Queue<Want, Grant> {
  readonly #options: QueueOptions;
  readonly #waiting = new FairQueue<QueueTicket<Want, Grant>>();
  /** The positions of all tickets; undefined after a change, and computed on demand. */
  #positions: ReadonlyMap<QueueTicket<Want, Grant>, number> | undefined;
  #tellsSoon = false;
  #beats = 0;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#waiting.size;
  }

  get beats(): number {
    return this.#beats;
  }

  wants(): readonly Want[] {
    return Array.from(this.#waiting.order(), ({ want }) => want);
  }

  /** A full queue evicts a request of the largest other tenant. Throws `EngineError` QUEUE_FULL if there is none. */
  join(want: Want, claim: Claim, signal: AbortSignal): QueueTicket<Want, Grant> {
    throwIfLeft(signal);
    this.#makeRoom(claim.tenant);
    const { clock, maxWaitMs } = this.#options;
    const ticket = new QueueTicket<Want, Grant>({
      key: claim.tenant,
      priorityClass: classOf(claim.priority),
      rank: claim.priority,
      cost: claim.cost,
      want,
      signal,
      clock,
      maxWaitMs,
      position: (self) => this.#position(self),
      leave: (self) => {
        if (this.#waiting.remove(self)) this.#moved();
      },
    });
    this.#waiting.push(ticket);
    this.#positions = undefined;
    return ticket;
  }

  /** Serves waiting requests in order as long as `match` returns a grant. */
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
    this.#beats += 1;
    this.#tell();
  }

  close(error: EngineError): void {
    for (const ticket of this.#waiting.items()) ticket.fail(error);
  }

  #makeRoom(tenant: string): void {
    if (this.#waiting.size < this.#options.maxLength) return;
    const victim = this.#waiting.crowdBeside(tenant).at(-1);
    const full = new EngineError("QUEUE_FULL", "All slots are taken and the queue is full.");
    if (!victim) throw full;
    victim.fail(full);
  }

  #position(ticket: QueueTicket<Want, Grant>): number {
    this.#positions ??= new Map(Array.from(this.#waiting.order(), (one, index) => [one, index]));
    return this.#positions.get(ticket) ?? 0;
  }

  /** Wakes the remaining requests after a change of positions, once per tick for all changes. */
  #moved(): void {
    this.#positions = undefined;
    if (this.#tellsSoon) return;
    this.#tellsSoon = true;
    queueMicrotask(() => {
      this.#tellsSoon = false;
      this.#tell();
    });
  }

  #tell(): void {
    for (const ticket of this.#waiting.items()) ticket.beat();
  }
}

function classOf(priority: number): PriorityClass {
  if (priority === 0) return "default";
  return priority > 0 ? "high" : "low";
}
