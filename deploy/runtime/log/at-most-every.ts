import type { Clock } from "../time/clock.ts";

/**
 * Returns what calls `say` at once, and then at most once in `everyMs` milliseconds, however often it is called. `say`
 * gets the value of that call, and the number of calls since it was last called, this one included.
 */
export function atMostEvery<T>(
  clock: Pick<Clock, "nowMs">,
  everyMs: number,
  say: (value: T, times: number) => void,
): (value: T) => void {
  let saidAtMs = Number.NEGATIVE_INFINITY;
  let times = 0;
  return (value) => {
    times += 1;
    const nowMs = clock.nowMs();
    if (nowMs - saidAtMs < everyMs) return;
    saidAtMs = nowMs;
    say(value, times);
    times = 0;
  };
}
