/** The delay, in milliseconds, after a first end. */
const FIRST_MS = 500;
/** The longest delay, in milliseconds. */
const LONGEST_MS = 30_000;
/** The milliseconds after which a ready process is not one that fails again and again. */
const STEADY_MS = 60_000;

/**
 * Says when a process that ended is started again: half a second after a first end, each time twice as late for one
 * that keeps ending, and never later than after half a minute.
 */
export class RestartDelay {
  #ends = 0;

  /**
   * Returns the milliseconds to wait after an end of the process. `readyForMs` is how long the process had been ready
   * when it ended; 0 when it never was.
   */
  next(readyForMs: number): number {
    this.#ends = readyForMs >= STEADY_MS ? 1 : this.#ends + 1;
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#ends - 1, 10));
  }
}
