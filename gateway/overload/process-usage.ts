import { performance } from "node:perf_hooks";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/**
 * The time between two ticks, in milliseconds: by default some of them fall between two looks of the overload manager, and a
 * process without work wakes for few. Node's own histogram is not used: emptied, it leaves out the delay until
 * its next tick, which is all there is to see while the event loop hardly turns.
 */
const TICK_MS = 50;

/** The use that the process made of its event loop since it was last asked. */
export type Usage = {
  /**
   * The longest time by which a timer was late, in milliseconds; with so few ticks between two looks this is about
   * their 99th percentile.
   */
  readonly eventLoopDelayMs: number;
  /** The share of the time in which the event loop had work, from 0 to 1. */
  readonly eventLoopUtilization: number;
};

/** Measures the event loop of this process until it is closed. */
export class ProcessUsage {
  readonly #clock: Clock;
  #delayMs = 0;
  /** When the next tick is due, or until when its delay has been told. */
  #dueMs = 0;
  #utilization = performance.eventLoopUtilization();
  #cancelTick: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick();
  }

  /** Returns what was used since the last call, or since the start. */
  read(): Usage {
    // Also of a tick that is overdue: where looks are as frequent as ticks, or the loop hardly turns, there may be no other.
    const nowMs = this.#clock.nowMs();
    const eventLoopDelayMs = Math.max(this.#delayMs, nowMs - this.#dueMs);
    this.#delayMs = 0;
    this.#dueMs = Math.max(this.#dueMs, nowMs);
    const before = this.#utilization;
    this.#utilization = performance.eventLoopUtilization();
    return {
      eventLoopDelayMs,
      eventLoopUtilization: performance.eventLoopUtilization(this.#utilization, before).utilization,
    };
  }

  /** Stops measuring. */
  close(): void {
    this.#cancelTick();
  }

  #tick(): void {
    this.#dueMs = this.#clock.nowMs() + TICK_MS;
    this.#cancelTick = this.#clock.after(TICK_MS, () => {
      this.#delayMs = Math.max(this.#delayMs, this.#clock.nowMs() - this.#dueMs);
      this.#tick();
    });
  }
}
