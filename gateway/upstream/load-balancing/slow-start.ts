import * as z from "zod";
import type { EndpointView } from "./endpoint-view.ts";

/** The schema of the settings of slow start. A node that comes back has a cold prefix cache. */
export const slowStartSchema = z
  .strictObject({
    windowMs: z
      .int()
      .min(0)
      .default(30_000)
      .describe("The time, in milliseconds, for which an endpoint that came back warms up; 0 switches slow start off."),
    aggression: z
      .number()
      .positive()
      .default(1)
      .describe("The shape of the rise: 1 raises the weight evenly, more raises it faster at the beginning."),
    minWeightPercent: z
      .number()
      .min(0)
      .max(100)
      .default(10)
      .describe("The least share of its weight, in percent, that an endpoint has while it warms up."),
  })
  .prefault({})
  .describe("An endpoint that came back gets few requests at first, as its prefix cache is cold.");

/** The settings on how an endpoint that came back warms up, checked, with their defaults. */
export type SlowStartSettings = Readonly<z.infer<typeof slowStartSchema>>;

/** The time, in milliseconds, that a warm-up counts at least: its first second counts as a whole one, as in Envoy. */
const FIRST_STEP_MS = 1_000;

/**
 * Returns the share of its weight that an endpoint has at the monotonic time `nowMs`, above 0 and at most 1, when it
 * became available at `healthySinceMs`; undefined there stands for one that always was. It is Envoy's formula:
 * `max(min_weight, (max(time, 1 s) / window) ^ (1 / aggression))`.
 */
export function slowStartShare(
  healthySinceMs: number | undefined,
  nowMs: number,
  { windowMs, aggression, minWeightPercent }: SlowStartSettings,
): number {
  if (healthySinceMs === undefined) return 1;
  const elapsedMs = Math.max(0, nowMs - healthySinceMs);
  if (elapsedMs >= windowMs) return 1;
  const timeFactor = Math.min(1, Math.max(elapsedMs, FIRST_STEP_MS) / windowMs);
  return Math.max(minWeightPercent / 100, timeFactor ** (1 / aggression));
}

/** Returns the weight of an endpoint at a moment, slow start included. */
export type WeightOf = (endpoint: EndpointView) => number;

/** Makes the function that gives every endpoint its weight at the monotonic time `nowMs`. */
export function slowStartWeights(nowMs: number, settings: SlowStartSettings): WeightOf {
  return ({ weight, healthySinceMs }) => weight * slowStartShare(healthySinceMs, nowMs, settings);
}
