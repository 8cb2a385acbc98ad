import type { EndpointView } from "../endpoint-view.ts";
import { policyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/** The policy that picks by chance. It remembers nothing. */
export const random = policyRow({
  summary: "Any endpoint, as often as its weight says.",
  settings: {},
  create: (_settings, { slowStart, chance }) => ({
    pick(candidates, _route, nowMs) {
      const endpoint = pickRandom(candidates, slowStartWeights(nowMs, slowStart), chance);
      return endpoint && { endpoint };
    },
  }),
});

/** Any endpoint, as often as its weight says. Undefined for an empty list only. `chance`: even over [0, 1). */
export function pickRandom<E extends EndpointView>(
  candidates: readonly E[],
  weightOf: WeightOf,
  chance: () => number,
): E | undefined {
  const total = candidates.reduce((sum, endpoint) => sum + weightOf(endpoint), 0);
  let left = chance() * total;
  for (const endpoint of candidates) {
    left -= weightOf(endpoint);
    if (left < 0) return endpoint;
  }
  // Rounding may leave a crumb.
  return candidates.at(-1);
}
