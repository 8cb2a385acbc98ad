import { type Candidates, without } from "./candidates.ts";
import type { PickableEndpoints } from "./pickable-endpoints.ts";

/** The reason why there is no pick. Only `all_full` can end by waiting. */
export type NoPick = "no_endpoints" | "none_available" | "all_tried" | "all_full";

/** The policy's pick, or the reason why there is none. */
export type Choice<P> = { readonly pick: P } | { readonly none: NoPick };

/**
 * Has the policy pick among the untried candidates, or returns why it cannot. `policy` receives at least one candidate,
 * and returns undefined when none is suitable. `tried` holds the addresses already attempted; a pick iterates over the
 * candidates only when it is not empty.
 */
export function pickFrom<P>(
  endpoints: PickableEndpoints,
  candidates: Candidates,
  tried: ReadonlySet<string>,
  policy: (candidates: Candidates) => P | undefined,
): Choice<P> {
  const untried = without(candidates, tried);
  const pick = untried.all.length > 0 ? policy(untried) : undefined;
  return pick ? { pick } : { none: noPick(endpoints, tried) };
}

/** Returns why there is no pick, given that no untried endpoint with room suits the policy. */
export function noPick({ total, available }: PickableEndpoints, tried: ReadonlySet<string>): NoPick {
  if (total === 0) return "no_endpoints";
  if (available.all.length === 0) return "none_available";
  // The first untried endpoint ends the search.
  return available.all.some(({ address }) => !tried.has(address)) ? "all_full" : "all_tried";
}
