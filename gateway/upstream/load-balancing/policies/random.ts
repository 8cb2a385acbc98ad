import type { EndpointView } from "../endpoint-view.ts";
import { policyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/** The policy that picks at random. It remembers nothing. */
export const random = policyRow({
  summary: "Any endpoint, as often as its weight says.",
  settings: {},
  create: (_settings, { slowStart, random }) => ({
    pick(candidates, _route, nowMs) {
      const endpoint = pickRandom(candidates.all, slowStartWeights(nowMs, slowStart), random);
      return endpoint && { endpoint };
    },
  }),
});

/**
 * Picks any candidate, as often as its weight says. `random` returns numbers that are even over [0, 1). Returns
 * undefined for an empty list only.
 */
export function pickRandom<E extends EndpointView>(
  candidates: readonly E[],
  weightOf: WeightOf,
  random: () => number,
): E | undefined {
  const total = candidates.reduce((sum, endpoint) => sum + weightOf(endpoint), 0);
  let left = random() * total;
  for (const endpoint of candidates) {
    left -= weightOf(endpoint);
    if (left < 0) return endpoint;
  }
  // Rounding may leave a crumb.
  return candidates.at(-1);
}
