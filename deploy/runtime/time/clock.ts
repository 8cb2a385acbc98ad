/** All clocks are read and all timers set through this interface, so that tests can control the time. */
export interface Clock {
  /** Monotonic clock, in milliseconds with fractions. Its origin is arbitrary. */
  nowMs(): number;
  /**
   * Wall clock, in milliseconds since the epoch. It may jump, so it is used only for times that other processes read,
   * too: deadlines of gRPC calls, times in answers and traces, the expiry of keys.
   */
  wallMs(): number;
  /** Calls `run` after `ms` milliseconds, unless cancelled by the returned function; keeps no process alive. */
  after(ms: number, run: () => void): () => void;
}

export type MonotonicClock = Omit<Clock, "wallMs">;

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

/** A `google.protobuf.Duration` of the generated code: whole seconds and nanoseconds. */
export type ProtoDuration = { seconds: number; nanos: number };

export function toDuration(ms: number): ProtoDuration {
  const nanos = Math.round(Math.max(0, ms) * 1e6);
  return { seconds: Math.floor(nanos / 1e9), nanos: nanos % 1e9 };
}

export function durationMs({ seconds, nanos }: Readonly<ProtoDuration>): number {
  return seconds * 1000 + nanos / 1e6;
}
