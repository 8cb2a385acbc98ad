/**
 * Gives time as a parameter. Both programs read every clock and set every timer through a clock of this kind, so that a
 * test can hand in one that it moves itself.
 */
export interface Clock {
  /** Reads the monotonic clock, in milliseconds with fractions. Its zero means nothing; only differences do. */
  nowMs(): number;
  /**
   * Reads the wall clock, in milliseconds since the epoch. It may jump, so it serves only what other processes read
   * too: deadlines of gRPC calls, times in answers and traces, the expiry of keys.
   */
  wallMs(): number;
  /** Calls `run` once after `ms` milliseconds; the returned function cancels that. The timer keeps no process alive. */
  after(ms: number, run: () => void): () => void;
}

/** A clock that only measures and waits, for what must work without knowing the time of day. */
export type MonotonicClock = Omit<Clock, "wallMs">;

/** The clock of the machine. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};
