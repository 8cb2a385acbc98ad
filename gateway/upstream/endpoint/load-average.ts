/** The average of a load over the last minutes, exponentially decaying. */
export type LoadAverage = {
  /** The average number of requests. */
  readonly value: number;
  /** Monotonic milliseconds of the last measurement. */
  readonly atMs: number;
};

/**
 * The time constant of the average, in milliseconds: long enough that gateways which measure at different moments
 * agree.
 */
const TIME_CONSTANT_MS = 120_000;

/** Returns the average after one more measurement: `requests` were present since the last one. */
export function averageLoad(before: LoadAverage | undefined, requests: number, nowMs: number): LoadAverage {
  if (!before) return { value: requests, atMs: nowMs };
  const share = 1 - Math.exp(-Math.max(0, nowMs - before.atMs) / TIME_CONSTANT_MS);
  return { value: before.value + share * (requests - before.value), atMs: nowMs };
}
