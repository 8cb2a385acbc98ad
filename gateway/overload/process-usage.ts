import { totalmem } from "node:os";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/**
 * Returns the memory limit of this process, in bytes: the limit of its container (cgroups version 1 or 2) or, if there
 * is none or it is higher, the memory of the machine.
 */
export function memoryLimitBytes(): number {
  const machine = totalmem();
  // Absent or 0 without a limit, and nearly 2^64 for an unlimited cgroup.
  const container = process.constrainedMemory() || machine;
  return Math.min(container, machine);
}

let newestBytes = 0;

/**
 * Returns the resident set size of this process, in bytes. Without a free descriptor the system cannot be asked: then
 * it is the previous value, 0 at first.
 */
export function residentBytes(): number {
  try {
    newestBytes = process.memoryUsage.rss();
  } catch {
    // Exhausted descriptors must not end the process.
  }
  return newestBytes;
}

/**
 * Milliseconds between two ticks: several fall between two checks of the overload manager, and an idle process wakes
 * rarely. Node's own histogram is not used: after a reset, it omits the delay until its next tick, which is the only
 * measurement while the event loop is blocked.
 */
const TICK_MS = 50;

/** Measures the delay of the event loop until it is closed. */
export class LoopDelay {
  readonly #clock: Clock;
  #delayMs = 0;
  /** When the next tick is due, or up to when its delay was reported. */
  #dueMs = 0;
  #cancelTick: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick();
  }

  /** Returns the longest delay of a timer since the last call, in milliseconds, an overdue tick included. */
  readMs(): number {
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
