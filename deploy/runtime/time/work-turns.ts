import { setImmediate } from "node:timers/promises";

/** The longest time that work holds the event loop for in one turn, in milliseconds. */
const TURN_MS = 10;

/** Splits long work into turns of the event loop, so that everything else goes on meanwhile. */
export class WorkTurns {
  readonly #turnMs: number;
  readonly #nowMs: () => number;
  #beganMs: number;
  #turns = 1;

  /** Begins the first turn. A turn is 10 ms long by default, by `nowMs`, the machine's monotonic clock by default. */
  constructor(turnMs = TURN_MS, nowMs: () => number = () => performance.now()) {
    this.#turnMs = turnMs;
    this.#nowMs = nowMs;
    this.#beganMs = nowMs();
  }

  /** The number of turns that the work has taken so far. */
  get turns(): number {
    return this.#turns;
  }

  /** Whether the turn has lasted long enough: `next` is to be awaited before the work goes on. */
  get isOver(): boolean {
    return this.#nowMs() - this.#beganMs >= this.#turnMs;
  }

  /** Resolves when the next turn has begun, after all else that waits for the event loop. */
  async next(): Promise<void> {
    await setImmediate();
    this.#turns += 1;
    this.#beganMs = this.#nowMs();
  }
}
