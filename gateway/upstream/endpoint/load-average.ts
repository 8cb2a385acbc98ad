/** An average over about the last minutes, that slowly forgets. */
export type LoadAverage = {
  readonly value: number;
  /** Monotonic milliseconds at which the load was last looked at. */
  readonly atMs: number;
};

/** Long enough that gateways which look at different moments find the same. */
const TIME_CONSTANT_MS = 120_000;

/** The average with one more look at the load: `requests` stood there since the last one. */
export function averageLoad(before: LoadAverage | undefined, requests: number, nowMs: number): LoadAverage {
  if (!before) return { value: requests, atMs: nowMs };
  const share = 1 - Math.exp(-Math.max(0, nowMs - before.atMs) / TIME_CONSTANT_MS);
  return { value: before.value + share * (requests - before.value), atMs: nowMs };
}
