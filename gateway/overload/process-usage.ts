import type { Clock } from "../../deploy/runtime/time/clock.ts";

/**
 * Milliseconds between two ticks: several fall between two checks of the overload manager, and an idle process wakes
 * rarely. Node's own histogram is not used: after a reset, it omits the delay until its next tick, which is the only
 * measurement while the event loop is blocked.
 */
const TICK_MS = 50;

/** Measures the event loop of this process until it is closed. */
export class ProcessUsage {
  readonly #clock: Clock;
  #delayMs = 0;
  /** When the next tick is due, or up to when its delay was reported. */
  #dueMs = 0;
  #cancelTick: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick();
  }

  /**
   * Returns the longest time by which a timer was late since the last call, in milliseconds; with so few ticks between two
   * looks this is about their 99th percentile.
   */
  readDelayMs(): number {
    // Also of a tick that is overdue: where looks are as frequent as ticks, or the loop hardly turns, there may be no other.
    const nowMs = this.#clock.nowMs();
    const delayMs = Math.max(this.#delayMs, nowMs - this.#dueMs);
    this.#delayMs = 0;
    this.#dueMs = Math.max(this.#dueMs, nowMs);
    return delayMs;
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
