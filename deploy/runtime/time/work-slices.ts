import { setImmediate } from "node:timers/promises";

const TURN_MS = 10;

/** Splits long work into several ticks of the event loop, so that other work continues meanwhile. */
export class WorkSlices {
  readonly #turnMs: number;
  readonly #nowMs: () => number;
  #beganMs: number;
  count = 1;

  /** Begins the first turn. A turn is 10 ms long by default; `nowMs` is the machine's monotonic clock by default. */
  constructor(turnMs = TURN_MS, nowMs: () => number = () => performance.now()) {
    this.#turnMs = turnMs;
    this.#nowMs = nowMs;
    this.#beganMs = nowMs();
  }

  /** Whether the turn is over: the work has to await `next` before it continues. */
  get isOver(): boolean {
    return this.#nowMs() - this.#beganMs >= this.#turnMs;
  }

  /** Resolves when the next turn has begun, after all other work of the event loop. */
  async next(): Promise<void> {
    await setImmediate();
    this.count += 1;
    this.#beganMs = this.#nowMs();
  }
}
