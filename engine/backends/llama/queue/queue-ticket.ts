import type { FairItem, PriorityClass } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { EngineError } from "../../../errors.ts";
import { callerLeft } from "../../caller-left.ts";

export type QueueNews<Grant> =
  | { readonly kind: "granted"; readonly grant: Grant }
  | { readonly kind: "waiting"; readonly position: number };

export type TicketOptions<Want, Grant> = FairItem & {
  readonly want: Want;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly maxWaitMs: number;
  readonly position: (self: QueueTicket<Want, Grant>) => number;
  readonly leave: (self: QueueTicket<Want, Grant>) => void;
};

/** One request's ticket in a queue. The holder calls `next` until it is granted or throws, and closes it in the end. */
export class QueueTicket<Want, Grant> implements FairItem {
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
  constructor(options: TicketOptions<Want, Grant>) {
    this.key = options.key;
    this.priorityClass = options.priorityClass ?? "default";
    this.rank = options.rank ?? 0;
    this.cost = options.cost;
    this.want = options.want;
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
    return Math.max(0, this.#options.position(this));
  }

  /** Leaves the queue. Returns a grant that came too late to be used, which the caller must release. */
  close(): Grant | undefined {
    this.#settle();
    this.#options.leave(this);
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
    this.#options.leave(this);
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
