import type { PriorityClass } from "../../../../deploy/runtime/queue/class-share.ts";
import type { FairItem } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { EngineError } from "../../../errors.ts";
import { callerLeft } from "../../caller-left.ts";

/**
 * The news for a waiting request: that it was granted what it wants, or that it still waits behind `position` others.
 */
export type QueueNews<Grant> =
  | { readonly kind: "granted"; readonly grant: Grant }
  | { readonly kind: "waiting"; readonly position: number };

/** What a place in a queue is made of. */
export type TicketOptions<Want, Grant> = FairItem & {
  /** The demand that the request waits with. */
  readonly want: Want;
  /** The signal that is aborted when the caller leaves. */
  readonly signal: AbortSignal;
  /** Measures the wait. */
  readonly clock: Clock;
  /** The longest wait, in milliseconds. */
  readonly maxWaitMs: number;
  /** Returns the number of requests that are ahead of a place. */
  readonly position: (self: QueueTicket<Want, Grant>) => number;
  /** Takes a place out of the queue; does nothing where it has left already. */
  readonly leave: (self: QueueTicket<Want, Grant>) => void;
};

/** One place in a queue. Whoever holds it asks for news until it is granted or throws, and closes it in the end. */
export class QueueTicket<Want, Grant> implements FairItem {
  /** The tenant of the request. */
  readonly key: string;
  /** The class of the request. */
  readonly priorityClass: PriorityClass;
  /** The rank of the place within its class: a higher one goes earlier. */
  readonly rank: number;
  /** The tokens that serving the request takes. */
  readonly cost: number;
  /** The demand that the request waits with. */
  readonly want: Want;
  readonly #options: TicketOptions<Want, Grant>;
  readonly #cancelTimer: () => void;
  #outcome: { readonly grant: Grant } | { readonly error: EngineError } | undefined;
  #news = false;
  #wake: () => void = () => {};

  /** Makes a place that is given up with QUEUE_FULL after `maxWaitMs` milliseconds, and when the caller leaves. */
  constructor(options: TicketOptions<Want, Grant>) {
    this.key = options.key;
    this.priorityClass = options.priorityClass;
    this.rank = options.rank ?? 0;
    this.cost = options.cost;
    this.want = options.want;
    this.#options = options;
    this.#cancelTimer = options.clock.after(options.maxWaitMs, () =>
      this.fail(new EngineError("QUEUE_FULL", "No slot became free in time.")),
    );
    options.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /**
   * Resolves with the grant, or when the position has changed or a beat came. Throws `EngineError` when the place is
   * lost.
   */
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

  /** The number of requests that are ahead of this one. */
  get position(): number {
    return Math.max(0, this.#options.position(this));
  }

  /** Leaves the queue. Returns a grant that came too late to be used: the caller gives it back. */
  close(): Grant | undefined {
    this.#settle();
    this.#options.leave(this);
    return this.#outcome && "grant" in this.#outcome ? this.#outcome.grant : undefined;
  }

  /** Grants what the request wants. */
  fulfil(grant: Grant): void {
    this.#outcome = { grant };
    this.#settle();
  }

  /** Turns the request away. A grant that came before stands. */
  fail(error: EngineError): void {
    this.#outcome ??= { error };
    this.#settle();
    this.#options.leave(this);
  }

  /** Wakes the holder, so that it tells its caller that the engine is well. */
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
