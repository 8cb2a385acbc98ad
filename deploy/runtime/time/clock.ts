/** Time as a parameter: tests hand in a virtual one. */
export interface Clock {
  /** Monotonic milliseconds; only differences mean anything. */
  nowMs(): number;
  /** Wall clock in milliseconds since the epoch; for `created` fields and key expiry only. */
  wallMs(): number;
  /** Calls `run` once after `ms`; the returned function cancels it. Does not keep the process alive. */
  after(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
