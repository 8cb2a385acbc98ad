/** Milliseconds after the first exit. */
const FIRST_MS = 500;
/** Milliseconds. */
const LONGEST_MS = 30_000;
/** Ready time, in milliseconds, after which the delay is reset. */
const STEADY_MS = 60_000;

/**
 * The restart delay of a process: half a second after the first exit, doubled while it keeps exiting, at most half a
 * minute.
 */
export class RestartDelay {
  #ends = 0;

  /**
   * Returns the milliseconds to wait after an exit. `readyForMs` is how long the process had been ready; 0 if it never
   * was.
   */
  next(readyForMs: number): number {
    this.#ends = readyForMs >= STEADY_MS ? 1 : this.#ends + 1;
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#ends - 1, 10));
  }
}
