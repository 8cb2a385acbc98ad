import type { OutlierSettings } from "./outlier-settings.ts";

/** The calls of one endpoint in one interval. */
export type CallCounts = {
  /** The address of the endpoint, `host:port`. */
  readonly address: string;
  /** The number of calls that the endpoint answered as it should. */
  readonly successes: number;
  /**
   * The number of calls that failed by the endpoint's own fault, in one of two ways: with a wrong answer or, counted
   * apart, without an answer.
   */
  readonly failures: number;
};

type FailurePercentageSettings = OutlierSettings["failurePercentage"];
type SuccessRateSettings = OutlierSettings["successRate"];

/** Returns the addresses of endpoints whose share of failed calls is at least the threshold. */
export function byFailurePercentage(
  counts: readonly CallCounts[],
  { thresholdPercent, minHosts, requestVolume }: FailurePercentageSettings,
): string[] {
  const judged = withVolume(counts, requestVolume);
  if (judged.length < minHosts) return [];
  return judged
    .filter(({ failures, successes }) => (failures * 100) / (failures + successes) >= thresholdPercent)
    .map(({ address }) => address);
}

/**
 * Returns the addresses of endpoints whose success rate is below `mean - stdevFactor * stdev` over the endpoints that
 * are judged.
 */
export function bySuccessRate(
  counts: readonly CallCounts[],
  { minHosts, requestVolume, stdevFactor }: SuccessRateSettings,
): string[] {
  const judged = withVolume(counts, requestVolume);
  if (judged.length < minHosts || judged.length === 0) return [];
  const rates = judged.map(({ successes, failures }) => (successes * 100) / (successes + failures));
  const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
  const variance = rates.reduce((sum, rate) => sum + (rate - mean) ** 2, 0) / rates.length;
  const threshold = mean - stdevFactor * Math.sqrt(variance);
  return judged.filter((_, index) => (rates[index] ?? 0) < threshold).map(({ address }) => address);
}

function withVolume(counts: readonly CallCounts[], requestVolume: number): readonly CallCounts[] {
  return counts.filter(({ successes, failures }) => successes + failures >= Math.max(1, requestVolume));
}
