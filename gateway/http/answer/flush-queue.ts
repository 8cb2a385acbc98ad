import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The time between two looks at how busy the event loop is, in milliseconds. */
const LOOK_MS = 50;
/** The share of time that the event loop works above which writes are held longer. */
const BUSY = 0.6;
/** The share of time that the event loop works below which writes are held less long. */
const CALM = 0.5;
/** The milliseconds by which a look lengthens the hold. It rises slowly, so that it does not swing. */
const LONGER_MS = 2;
/** The milliseconds by which a look shortens the hold. */
const SHORTER_MS = 4;

/**
 * Returns how long writes are to be held so that deltas of a stream leave together, in milliseconds up to `maxMs`.
 * `holdMs` is how long they were held so far, `utilisation` the share of time from 0 to 1 in which the event loop had work
 * meanwhile, `looks` the number of looks that were due in that time. A process that is not busy holds nothing.
 */
export function nextHoldMs(holdMs: number, utilisation: number, looks: number, maxMs: number): number {
  if (utilisation > BUSY) return Math.min(maxMs, holdMs + LONGER_MS);
  if (utilisation < CALM) return Math.max(0, holdMs - SHORTER_MS * looks);
  return holdMs;
}

/** A stream that gathers what comes in a short time and writes it in one piece. */
export interface Flushable {
  /** Writes what has gathered since the last call. */
  flush(): void;
}

/** What a flush queue goes by. */
export type FlushQueueOptions = {
  /** The longest time for which writes are held while the process is busy, in milliseconds; 0 holds none. Default: 0. */
  readonly maxJoinMs?: number;
  /** The clock by which writes are held. */
  readonly clock: Pick<Clock, "nowMs" | "after">;
  /** Returns the share of time, 0 to 1, in which the event loop had work since it was asked last. Default: as Node measures it. */
  readonly utilisation?: () => number;
};

/**
 * Writes all streams that got something in this turn of the event loop, once, at its end. One read from an engine's
 * connection often brings deltas of many streams and several of one: joining them saves a system call each. Where the
 * process is busy, writes are held for some milliseconds, so that more deltas share one.
 */
export class FlushQueue {
  readonly #maxJoinMs: number;
  readonly #clock: FlushQueueOptions["clock"];
  readonly #utilisation: () => number;
  #dirty: Flushable[] = [];
  #urgent: Flushable[] = [];
  #holdMs = 0;
  #lookedMs: number;

  constructor({ maxJoinMs = 0, clock, utilisation = loopUtilisation() }: FlushQueueOptions) {
    this.#maxJoinMs = maxJoinMs;
    this.#clock = clock;
    this.#utilisation = utilisation;
    this.#lookedMs = clock.nowMs();
  }

  /** Returns the time for which writes are held now, in milliseconds. */
  holdMs(): number {
    if (this.#maxJoinMs > 0) this.#look();
    return this.#holdMs;
  }

  /**
   * Has `stream` flushed before the event loop waits again, or a little later where the process is busy; never later where
   * it is `urgent`. It is to be called once per stream until it is flushed.
   */
  add(stream: Flushable, urgent = false): void {
    if (urgent && this.#maxJoinMs > 0) {
      if (this.#urgent.push(stream) === 1) setImmediate(this.#runUrgent);
      return;
    }
    if (this.#dirty.push(stream) > 1) return;
    if (this.#maxJoinMs > 0) this.#look();
    if (this.#holdMs > 0) this.#clock.after(this.#holdMs, this.#run);
    else setImmediate(this.#run);
  }

  #look(): void {
    const nowMs = this.#clock.nowMs();
    const looks = Math.floor((nowMs - this.#lookedMs) / LOOK_MS);
    if (looks === 0) return;
    this.#lookedMs = nowMs;
    this.#holdMs = nextHoldMs(this.#holdMs, this.#utilisation(), looks, this.#maxJoinMs);
  }

  readonly #run = (): void => {
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const stream of dirty) stream.flush();
  };

  readonly #runUrgent = (): void => {
    const urgent = this.#urgent;
    this.#urgent = [];
    for (const stream of urgent) stream.flush();
  };
}

/** Returns what measures how busy the event loop of this process was since it was asked last. */
function loopUtilisation(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const before = last;
    last = performance.eventLoopUtilization();
    return performance.eventLoopUtilization(last, before).utilization;
  };
}
