import * as z from "zod";
import { type EndpointView, requestsOn } from "../endpoint-view.ts";
import { policyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/** The policy that compares a few endpoints drawn at random. It remembers nothing. */
export const leastRequest = policyRow({
  summary: "The least loaded of a few endpoints that are drawn at random.",
  settings: {
    leastRequestLbConfig: z
      .strictObject({
        choiceCount: z.int().min(2).default(2).describe("The number of endpoints that are drawn and compared."),
      })
      .prefault({})
      .describe("Settings of the policy least_request."),
  },
  create: ({ leastRequestLbConfig: { choiceCount } }, { slowStart, random }) => ({
    pick(candidates, _route, nowMs) {
      const endpoint = pickLeastRequest(candidates.all, choiceCount, slowStartWeights(nowMs, slowStart), random);
      return endpoint && { endpoint };
    },
  }),
});

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
