const FIRST_MS = 500;
const LONGEST_MS = 30_000;
/** A process that has been ready for so long is not one that fails again and again. */
const STEADY_MS = 60_000;

/**
 * When a process that ended is started again, in milliseconds: soon after a first end, ever later for one that keeps ending,
 * and never less often than each half minute.
 */
export class RestartDelay {
  #ends = 0;

  /** `readyForMs`: how long it had been ready when it ended; 0 when it never was. */
  next(readyForMs: number): number {
    this.#ends = readyForMs >= STEADY_MS ? 1 : this.#ends + 1;
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#ends - 1, 10));
  }
}
