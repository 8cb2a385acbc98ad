/** The average of a load over about the last minutes, which slowly forgets. */
export type LoadAverage = {
  /** The average number of requests. */
  readonly value: number;
  /** Monotonic milliseconds at which the load was last looked at. */
  readonly atMs: number;
};

/**
 * The time constant of the average, in milliseconds: long enough that gateways which look at different moments find the
 * same.
 */
const TIME_CONSTANT_MS = 120_000;

/** Returns the average with one more look at the load: `requests` were there since the last one. */
export function averageLoad(before: LoadAverage | undefined, requests: number, nowMs: number): LoadAverage {
  if (!before) return { value: requests, atMs: nowMs };
  const share = 1 - Math.exp(-Math.max(0, nowMs - before.atMs) / TIME_CONSTANT_MS);
  return { value: before.value + share * (requests - before.value), atMs: nowMs };
}
