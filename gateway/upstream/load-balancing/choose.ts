import { type Candidates, without } from "./candidates.ts";
import type { PickableEndpoints } from "./pickable-endpoints.ts";

/** The reason why there is no pick. Waiting helps where it is `all_full`, and with none of the others. */
export type NoPick = "no_endpoints" | "none_available" | "all_tried" | "all_full";

/** The result of a pick: what the policy gave for the endpoint that it picked, or why there is nothing. */
export type Choice<P> = { readonly pick: P } | { readonly none: NoPick };

/**
 * Has the policy pick among the candidates that were not tried, or returns why it cannot. `policy` picks from candidates
 * that are never none, and returns undefined when none suits it. `tried` holds the addresses of the endpoints that the
 * request was sent to before; only then does a pick cost a pass over the candidates.
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

/** Returns why there is no pick, where no endpoint that has room and was not tried suits the policy. */
export function noPick({ total, available }: PickableEndpoints, tried: ReadonlySet<string>): NoPick {
  if (total === 0) return "no_endpoints";
  if (available.all.length === 0) return "none_available";
  // The first one that was not tried ends the search.
  return available.all.some(({ address }) => !tried.has(address)) ? "all_full" : "all_tried";
}
