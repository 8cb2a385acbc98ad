import * as z from "zod";
import type { SettingsOf } from "./policy.ts";

/** The number of endpoints that one priority has. */
export type LevelHealth = {
  /** The number of endpoints of the priority that may get requests. */
  readonly available: number;
  /** The number of all endpoints of the priority. */
  readonly total: number;
};

/** The schemas of the settings on priorities. */
export const priorityShape = {
  // No panic towards engines by default: a request to a dead GPU only burns the caller's time.
  healthyPanicThreshold: z
    .number()
    .min(0)
    .max(100)
    .default(0)
    .describe(
      "The share of available endpoints, in percent, below which a priority picks among all its endpoints whatever their health; at 0 health always counts.",
    ),
  overprovisioningFactor: z
    .int()
    .min(100)
    .default(140)
    .describe(
      "The load that the available endpoints of a priority can bear, in percent of their share: at 140 a priority bears its whole load down to 71 % of its endpoints.",
    ),
};

/** The settings on how requests are spread over priorities, checked, with their defaults. */
export type PrioritySettings = SettingsOf<typeof priorityShape>;

/** The share of the requests that one priority gets. */
export type LevelLoad = {
  /**
   * The share of the requests that the priority gets, in whole percent. The shares of all priorities make 100, or 0
   * where nothing can be picked.
   */
  readonly loadPercent: number;
  /** Whether the health of the priority's endpoints is not looked at. */
  readonly panic: boolean;
};

/**
 * Returns how requests are spread over `levels`, the first priority first, by the formulas of Envoy's documents on
 * priority levels and on the panic threshold: each level takes what its health, times the overprovisioning, can bear,
 * and the next one the rest. Only when all levels together cannot bear everything does the panic threshold count.
 */
export function priorityLoads(levels: readonly LevelHealth[], settings: PrioritySettings): LevelLoad[] {
  const { overprovisioningFactor, healthyPanicThreshold } = settings;
  const health = levels.map(({ available, total }) =>
    total === 0 ? 0 : Math.min(100, Math.floor((overprovisioningFactor * available) / total)),
  );
  const totalHealth = Math.min(100, sum(health));
  const panic = levels.map(
    ({ available, total }) => totalHealth < 100 && total > 0 && (available * 100) / total < healthyPanicThreshold,
  );
  const allPanic = levels.every(({ total }, index) => total === 0 || panic[index]);
  // Where no level's health means anything, as many as there are endpoints.
  const shares = allPanic ? levels.map(({ total }) => total) : health;
  const loads = spread(shares, allPanic ? sum(shares) : totalHealth);
  return loads.map((loadPercent, index) => ({ loadPercent, panic: panic[index] ?? false }));
}

/** Returns what percentage of `whole` each share is, the first ones first, up to 100 together. */
function spread(shares: readonly number[], whole: number): number[] {
  if (whole === 0) return shares.map(() => 0);
  let left = 100;
  const loads = shares.map((share) => {
    const load = Math.min(left, Math.round((share * 100) / whole));
    left -= load;
    return load;
  });
  // What rounding left over goes to the first that takes any.
  const first = loads.findIndex((load) => load > 0);
  return loads.map((load, index) => (index === first ? load + left : load));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
