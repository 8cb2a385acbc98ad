/** Of a model that no endpoint can take now, where nobody knows better. */
const UNKNOWN_MS = 2_000;
const LEAST_MS = 1_250;
const MOST_MS = 50_000;
/** Longer or shorter by up to this share. */
const JITTER = 0.2;

/**
 * When a caller may try again, in milliseconds from now, if there is room in `expectedMs`: never at once and never in an
 * hour, and spread, so that callers do not come back together. `chance`: even over [0, 1).
 */
export function comeBackMs(expectedMs: number | undefined, chance: () => number): number {
  const withinMs = Math.min(MOST_MS, Math.max(LEAST_MS, expectedMs ?? UNKNOWN_MS));
  return withinMs * (1 + JITTER * (2 * chance() - 1));
}
