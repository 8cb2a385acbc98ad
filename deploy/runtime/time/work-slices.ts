import { setImmediate } from "node:timers/promises";

const SLICE_MS = 10;

/** Splits long work into slices, one per tick of the event loop, so that other work continues meanwhile. */
export class WorkSlices {
  readonly #sliceMs: number;
  readonly #nowMs: () => number;
  #beganMs: number;
  count = 1;

  /** Begins the first slice. A slice is 10 ms long by default; `nowMs` is the machine's monotonic clock by default. */
  constructor(sliceMs = SLICE_MS, nowMs: () => number = () => performance.now()) {
    this.#sliceMs = sliceMs;
    this.#nowMs = nowMs;
    this.#beganMs = nowMs();
  }

  /** Whether the slice is over: the work has to await `next` before it continues. */
  get isOver(): boolean {
    return this.#nowMs() - this.#beganMs >= this.#sliceMs;
  }

  /** Resolves when the next slice has begun, after all other work of the event loop. */
  async next(): Promise<void> {
    await setImmediate();
    this.count += 1;
    this.#beganMs = this.#nowMs();
  }
}
