import { type EndpointView, requestsOn } from "../endpoint-view.ts";
import type { PolicyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/** The number of endpoints that are drawn and compared; two keep gateways apart that share nothing. */
const CHOICE_COUNT = 2;

/** The policy that compares two endpoints drawn at random. It remembers nothing. */
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
 * Picks the least loaded of `choiceCount` candidates drawn at random, or of all where there are no more; so gateways
 * that know nothing of each other do not all run to the same one. Load is the number of requests divided by weight.
 * `random` returns numbers that are even over [0, 1). Returns undefined for an empty list only.
 */
export function pickLeastRequest<E extends EndpointView>(
  candidates: readonly E[],
  choiceCount: number,
  weightOf: WeightOf,
  random: () => number,
): E | undefined {
  /** The places that were drawn, in their order. */
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

/** Draws one of `count` places that is not among `drawn`, and adds it there. */
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
