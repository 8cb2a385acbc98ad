import { median } from "./percentile.ts";

export type Rounds<M> = readonly ReadonlyMap<string, M>[];

/** Returns the median of a target's `value` over the rounds; NaN if not measured. */
export function medianOf<M>(rounds: Rounds<M>, name: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value)));
}

/** Returns the median over the rounds of a target's `value` divided by another's in the same round. */
export function medianRatio<M>(rounds: Rounds<M>, name: string, to: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value) / measuredValue(round, to, value)));
}

/** Returns the median over the rounds of a target's `value` minus another's in the same round. */
export function medianAdded<M>(rounds: Rounds<M>, name: string, to: string, value: (measured: M) => number): number {
  return median(rounds.map((round) => measuredValue(round, name, value) - measuredValue(round, to, value)));
}

function measuredValue<M>(round: ReadonlyMap<string, M>, name: string, value: (measured: M) => number): number {
  const measured = round.get(name);
  return measured === undefined ? Number.NaN : value(measured);
}
