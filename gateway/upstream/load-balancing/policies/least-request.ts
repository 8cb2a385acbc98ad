import { type EndpointView, requestsOn } from "../endpoint-view.ts";
import type { PolicyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/**
 * The number of endpoints drawn and compared. Power of two choices keeps gateways without shared state from picking the
 * same endpoint.
 */
const CHOICE_COUNT = 2;

/** The policy that compares two endpoints drawn at random; stateless. */
export const leastRequest: PolicyRow = {
  summary: "The less loaded of two endpoints that are drawn at random.",
  create: ({ random }) => ({
    pick(candidates, _route, nowMs) {
      const endpoint = pickLeastRequest(candidates.all, CHOICE_COUNT, slowStartWeights(nowMs), random);
      return endpoint && { endpoint };
    },
  }),
};

/**
 * Picks the least loaded of `choiceCount` candidates drawn at random, or of all where there are fewer, so that gateways
 * without shared state do not all pick the same one. Load is the number of requests divided by weight. `random` returns
 * numbers uniform over [0, 1). Returns undefined only for an empty list.
 */
export function pickLeastRequest<E extends EndpointView>(
  candidates: readonly E[],
  choiceCount: number,
  weightOf: WeightOf,
  random: () => number,
): E | undefined {
  /** The drawn indices, in order. */
  const drawn: number[] = [];
  let best: { endpoint: E; load: number } | undefined;
  while (drawn.length < choiceCount && drawn.length < candidates.length) {
    const endpoint = candidates[drawOther(drawn, candidates.length, random)];
    if (!endpoint) break;
    const load = (requestsOn(endpoint) + 1) / weightOf(endpoint);
    if (!best || load < best.load) best = { endpoint, load };
  }
  return best?.endpoint;
}

/** Draws one of `count` indices that is not in `drawn`, and adds it there. */
function drawOther(drawn: number[], count: number, random: () => number): number {
  let place = Math.floor(random() * (count - drawn.length));
  let rank = 0;
  for (const taken of drawn) {
    if (place < taken) break;
    place += 1;
    rank += 1;
  }
  drawn.splice(rank, 0, place);
  return place;
}
