import type { EndpointView } from "../endpoint-view.ts";
import type { WeightOf } from "../slow-start.ts";

/** Envoy's `least_request_lb_config.choice_count`. */
export const DEFAULT_CHOICE_COUNT = 2;

/**
 * The least loaded of `choiceCount` endpoints drawn by chance, all of them where there are no more: gateways that know
 * nothing of each other do not all run to the same one. Load is requests by weight. Undefined for an empty list only.
 */
export function pickLeastRequest<E extends EndpointView>(
  candidates: readonly E[],
  choiceCount: number,
  weightOf: WeightOf,
  chance: () => number,
): E | undefined {
  const rest = [...candidates];
  let best: { endpoint: E; load: number } | undefined;
  for (let drawn = 0; drawn < choiceCount && rest.length > 0; drawn += 1) {
    const [endpoint] = rest.splice(Math.floor(chance() * rest.length), 1);
    if (!endpoint) break;
    const load = (requestsOn(endpoint) + 1) / weightOf(endpoint);
    if (!best || load < best.load) best = { endpoint, load };
  }
  return best?.endpoint;
}

/** Requests on an endpoint, waiting ones included: the report knows other gateways', the own count is newer. */
export function requestsOn({ activeRequests, running, waiting }: EndpointView): number {
  return Math.max(activeRequests, running + waiting);
}
