import type { EndpointView } from "./endpoint-view.ts";

/** The warm-up time of an endpoint that came back, in milliseconds: its prefix cache is cold. */
export const SLOW_START_MS = 30_000;
/** The least share of its weight that an endpoint has during warm-up. */
const MIN_SHARE = 0.1;

/**
 * Returns the share of its weight that an endpoint has at the monotonic time `nowMs`, above 0 and at most 1.
 * `healthySinceMs` is the time at which it became available; undefined where it always was. Envoy's slow start with a
 * linear rise.
 */
export function slowStartShare(healthySinceMs: number | undefined, nowMs: number): number {
  if (healthySinceMs === undefined) return 1;
  return Math.min(1, Math.max(MIN_SHARE, (nowMs - healthySinceMs) / SLOW_START_MS));
}

/** Returns the current weight of an endpoint, slow start included. */
export type WeightOf = (endpoint: EndpointView) => number;

/** Returns the weights of endpoints at the monotonic time `nowMs`. */
export function slowStartWeights(nowMs: number): WeightOf {
  return ({ weight, healthySinceMs }) => weight * slowStartShare(healthySinceMs, nowMs);
}
