import { performance } from "node:perf_hooks";
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/**
 * The time between two ticks, in milliseconds. Node's own histogram is not used: emptied, it leaves out the delay until
 * its next tick, which is all there is to see while the event loop hardly turns.
 */
const TICK_MS = 20;

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

/**
 * The bytes that V8 reserves for the young generation of its heap. They count in V8's limit, but the process dies when
 * the old generation is full. As V8 collects when half of what was left is used, a heap that is nearly full is not full
 * of garbage.
 */
const YOUNG_GENERATION_BYTES = 48 * 1024 * 1024;
const YOUNG_SPACES = ["new_space", "new_large_object_space"];

/** Measures the part of the heap at whose end the process dies, and how far it may grow, in bytes. */
export function heapUse(): { readonly usedBytes: number; readonly limitBytes: number } {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  const young = getHeapSpaceStatistics()
    .filter(({ space_name: name }) => YOUNG_SPACES.includes(name))
    .reduce((sum, { space_used_size: size }) => sum + size, 0);
  return { usedBytes: used - young, limitBytes: limit - Math.min(YOUNG_GENERATION_BYTES, limit / 4) };
}

/** Measures the event loop of this process until it is closed. */
export class ProcessUsage {
  readonly #clock: Clock;
  #delayMs = 0;
  #utilization = performance.eventLoopUtilization();
  #cancelTick: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#tick();
  }

  /** Returns what was used since the last call, or since the start. */
  read(): Usage {
    const eventLoopDelayMs = this.#delayMs;
    this.#delayMs = 0;
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
    const dueMs = this.#clock.nowMs() + TICK_MS;
    this.#cancelTick = this.#clock.after(TICK_MS, () => {
      this.#delayMs = Math.max(this.#delayMs, this.#clock.nowMs() - dueMs);
      this.#tick();
    });
  }
}
