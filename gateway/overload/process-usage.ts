import { performance } from "node:perf_hooks";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/**
 * Milliseconds between two ticks: several fall between two checks of the overload manager, and an idle process wakes
 * rarely. Node's own histogram is not used: after a reset, it omits the delay until its next tick, which is the only
 * measurement while the event loop is blocked.
 */
const TICK_MS = 50;

/** Use of the event loop since the last reading. */
export type Usage = {
  /**
   * Longest delay of a timer, in milliseconds; with so few ticks between two checks this is about their 99th
   * percentile.
   */
  readonly eventLoopDelayMs: number;
  /** Share of the time in which the event loop had work, from 0 to 1. */
  readonly eventLoopUtilization: number;
};

/** Measures the event loop of this process until it is closed. */
export class ProcessUsage {
  readonly #clock: Clock;
  #delayMs = 0;
  /** When the next tick is due, or up to when its delay was reported. */
  #dueMs = 0;
  #utilization = performance.eventLoopUtilization();
  #cancelTick: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick();
  }

  /** Returns the use since the last call, or since the start. */
  read(): Usage {
    // Includes an overdue tick: if checks are as frequent as ticks, or the loop is blocked, there may be no other.
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
