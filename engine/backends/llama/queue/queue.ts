import type { PriorityClass } from "../../../../deploy/runtime/queue/class-share.ts";
import { FairQueue } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { EngineError } from "../../../errors.ts";
import { throwIfLeft } from "../../caller-left.ts";
import { QueueTicket } from "./queue-ticket.ts";

/** What a request says about its place in the queue. */
export type Claim = {
  /** The tenant that the request belongs to: turns are shared between tenants. */
  readonly tenant: string;
  /**
   * The urgency of the request: 0 is usual; above and below it are the classes `high` and `low`, where a higher one
   * goes earlier.
   */
  readonly priority: number;
  /** The tokens that serving the request takes; above 0. */
  readonly cost: number;
};

/** The bounds of a queue. */
export type QueueOptions = {
  /** The most requests that may wait. */
  readonly maxLength: number;
  /** The longest wait of one request, in milliseconds. */
  readonly maxWaitMs: number;
  /** Measures the waits. */
  readonly clock: Clock;
};

/**
 * A queue of requests that wait for a slot, fair between tenants and bounded in number and time. What they wait for is
 * found by `match`, so that the queue knows nothing of slots.
 */
export class Queue<Want, Grant> {
  readonly #options: QueueOptions;
  readonly #waiting = new FairQueue<QueueTicket<Want, Grant>>();
  /** The places of all tickets; undefined after a change, and made anew when somebody asks. */
  #positions: ReadonlyMap<QueueTicket<Want, Grant>, number> | undefined;
  #tellsSoon = false;
  #beats = 0;

  /** Makes an empty queue. */
  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** The number of requests that wait. */
  get length(): number {
    return this.#waiting.size;
  }

  /** The number of times that those who wait were told that the engine is well. */
  get beats(): number {
    return this.#beats;
  }

  /** Returns all that is waited for, about in the order in which it will be served. */
  wants(): readonly Want[] {
    return this.#waiting.order().map(({ want }) => want);
  }

  /**
   * Joins the queue. Where it is full, the tenant with the most requests in it gives one up for another tenant's.
   * Throws `EngineError` QUEUE_FULL when there is none to give up.
   */
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

  /** Serves whoever is next for as long as `match` finds something. */
  serve(match: (want: Want) => Grant | undefined): void {
    let served = false;
    for (let next = this.#waiting.next(); next; next = this.#waiting.next()) {
      const grant = match(next.want);
      if (grant === undefined) {
        this.#waiting.putBack([next]);
        break;
      }
      next.fulfil(grant);
      served = true;
    }
    if (served) this.#moved();
  }

  /** Tells everyone who waits that the engine is well, so that their callers see a sign of life. */
  beat(): void {
    this.#beats += 1;
    this.#tell();
  }

  /** Turns everyone away with this error. */
  close(error: EngineError): void {
    for (const ticket of this.#waiting.order()) ticket.fail(error);
  }

  #makeRoom(tenant: string): void {
    if (this.#waiting.size < this.#options.maxLength) return;
    const victim = this.#waiting.crowdBeside(tenant).at(-1);
    const full = new EngineError("QUEUE_FULL", "All slots are taken and the queue is full.");
    if (!victim) throw full;
    victim.fail(full);
  }

  #position(ticket: QueueTicket<Want, Grant>): number {
    this.#positions ??= new Map(this.#waiting.order().map((one, index) => [one, index]));
    return this.#positions.get(ticket) ?? 0;
  }

  /** Tells those who are left that they have moved, once for all that leave at the same moment. */
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
    for (const ticket of this.#waiting.order()) ticket.beat();
  }
}

function classOf(priority: number): PriorityClass {
  if (priority === 0) return "default";
  return priority > 0 ? "high" : "low";
}
