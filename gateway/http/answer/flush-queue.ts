import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** Milliseconds between two measurements of the event loop utilization. */
const LOOK_MS = 50;
/** Event loop utilization above which writes are held longer. */
const BUSY = 0.6;
/** Event loop utilization below which writes are held less long. */
const CALM = 0.5;
/** Milliseconds by which a measurement lengthens the hold: a slow rise prevents oscillation. */
const LONGER_MS = 2;
/** Milliseconds by which a measurement shortens the hold. */
const SHORTER_MS = 4;

/**
 * Returns how long writes are held so that deltas of a stream are written together, in milliseconds up to `maxMs`.
 * `holdMs` is the previous hold, `utilisation` the event loop utilization since (0 to 1), `looks` the number of
 * measurements due in that time. An idle process holds no writes.
 */
export function nextHoldMs(holdMs: number, utilisation: number, looks: number, maxMs: number): number {
  if (utilisation > BUSY) return Math.min(maxMs, holdMs + LONGER_MS);
  if (utilisation < CALM) return Math.max(0, holdMs - SHORTER_MS * looks);
  return holdMs;
}

/** A stream that collects deltas for a short time and writes them at once. */
export interface Flushable {
  /** Writes the collected bytes. */
  flush(): void;
}

export type FlushQueueOptions = {
  /** Longest hold of writes while the process is busy, in milliseconds. Default: 0. */
  readonly maxJoinMs?: number;
  readonly clock: Pick<Clock, "nowMs" | "after">;
  /** Returns the event loop utilization, 0 to 1, since its last call. Default: as Node measures it. */
  readonly utilisation?: () => number;
};

/**
 * Flushes each stream with new deltas once, at the end of an event loop turn. One read from an engine's connection
 * often brings deltas of many streams and several of one: joining them saves a system call each. In a busy process,
 * writes are held for some milliseconds to join more deltas.
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

  /** Returns the current hold of writes, in milliseconds. */
  holdMs(): number {
    if (this.#maxJoinMs > 0) this.#look();
    return this.#holdMs;
  }

  /**
   * Schedules a flush of `stream` before the event loop waits again, or a little later in a busy process unless it is
   * `urgent`. To be called once per stream until it is flushed.
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

/** Returns a function that measures the event loop utilization since its last call. */
function loopUtilisation(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const before = last;
    last = performance.eventLoopUtilization();
    return performance.eventLoopUtilization(last, before).utilization;
  };
}
