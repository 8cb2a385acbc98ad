import type { BackOffSettings } from "./retry-settings.ts";

/**
 * Returns the milliseconds to wait before retry number `retry`, which counts from 1. It is Envoy's fully jittered
 * back-off: even over `[0, (2^retry - 1) * base)`, and never above the longest interval. `random` gives numbers that
 * are even over [0, 1).
 */
export function backOffMs(
  retry: number,
  { baseIntervalMs, maxIntervalMs }: BackOffSettings,
  random: () => number,
): number {
  const range = Math.min(maxIntervalMs, (2 ** retry - 1) * baseIntervalMs);
  return random() * range;
}
