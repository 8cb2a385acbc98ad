import type { Clock } from "./clock.ts";

/** Resolves after `ms` milliseconds, or as soon as `signal` is aborted; `signal.aborted` tells which it was. Never rejects. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}
