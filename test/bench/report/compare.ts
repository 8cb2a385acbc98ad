import { median } from "./percentile.ts";

/** Rounds of measurements, each by name of target. */
export type Rounds<M> = readonly ReadonlyMap<string, M>[];

/** Returns the median over the rounds of `value` of one target; NaN where it was not measured. */
export function medianOf<M>(rounds: Rounds<M>, name: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value)));
}

/** Returns the median over the rounds of `value` of a target divided by that of another in the same round. */
export function medianRatio<M>(rounds: Rounds<M>, name: string, to: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value) / measuredValue(round, to, value)));
}

/** Returns the median over the rounds of `value` of a target less that of another in the same round. */
export function medianAdded<M>(rounds: Rounds<M>, name: string, to: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value) - measuredValue(round, to, value)));
}

function measuredValue<M>(round: ReadonlyMap<string, M>, name: string, value: (measured: M) => number): number {
  const measured = round.get(name);
  return measured === undefined ? Number.NaN : value(measured);
}
