import type { Clock } from "./clock.ts";

/** Until `ms` are over or the signal is aborted: which of them it was the signal tells. */
export function elapsed(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
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
