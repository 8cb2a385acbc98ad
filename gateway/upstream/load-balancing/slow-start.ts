import type { EndpointView } from "./endpoint-view.ts";

/** The time for which an endpoint that came back warms up, in milliseconds: its prefix cache is cold. */
export const SLOW_START_MS = 30_000;
/** The least share of its weight that an endpoint has while it warms up. */
const MIN_SHARE = 0.1;

/**
 * Returns the share of its weight that an endpoint has at the monotonic time `nowMs`, above 0 and at most 1, when it
 * became available at `healthySinceMs`; undefined there stands for one that always was. It is Envoy's slow start with an
 * even rise.
 */
export function slowStartShare(healthySinceMs: number | undefined, nowMs: number): number {
  if (healthySinceMs === undefined) return 1;
  return Math.min(1, Math.max(MIN_SHARE, (nowMs - healthySinceMs) / SLOW_START_MS));
}

/** Returns the weight of an endpoint at a moment, slow start included. */
export type WeightOf = (endpoint: EndpointView) => number;

/** Makes the function that gives every endpoint its weight at the monotonic time `nowMs`. */
export function slowStartWeights(nowMs: number): WeightOf {
  return ({ weight, healthySinceMs }) => weight * slowStartShare(healthySinceMs, nowMs);
}
