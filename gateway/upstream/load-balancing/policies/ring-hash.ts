import * as z from "zod";
import type { Candidates } from "../candidates.ts";
import { type EndpointView, requestsOn } from "../endpoint-view.ts";
import type { HashRing } from "../hash-ring.ts";
import { policyRow } from "../policy.ts";

/** The policy that keeps everything with one affinity key on one endpoint. It remembers nothing. */
export const ringHash = policyRow({
  summary: "The owner of the request's affinity key on a hash ring, unless it has much more than its share.",
  settings: {
    ringHashLbConfig: z
      .strictObject({
        hashBalanceFactor: z
          .int()
          .min(100)
          .default(150)
          .describe("The most requests that an endpoint gets, in percent of its share of all requests."),
      })
      .prefault({})
      .describe("Settings of the policy ring_hash."),
  },
  create: ({ ringHashLbConfig: { hashBalanceFactor } }, parts) => {
    const ring = parts.ring();
    return {
      pick(candidates, { affinityKey }) {
        const endpoint = pickRingHash(candidates, ring, affinityKey, hashBalanceFactor);
        return endpoint && { endpoint };
      },
    };
  },
});

/**
 * Picks the first owner of `key` that is a candidate and has no more than its bounded load: `hashBalanceFactor` percent
 * of its weighted share of all requests, this one included (consistent hashing with bounded loads, as in Envoy). At 100
 * and above some candidate is always within its bound. Returns undefined where no candidate is on the ring.
 */
export function pickRingHash(
  candidates: Candidates,
  ring: HashRing,
  key: string,
  hashBalanceFactor: number,
): EndpointView | undefined {
  const requests = candidates.all.reduce((sum, endpoint) => sum + requestsOn(endpoint), 1);
  const weights = candidates.all.reduce((sum, { weight }) => sum + weight, 0);
  let first: EndpointView | undefined;
  for (const address of ring.ownersOf(key)) {
    const endpoint = candidates.get(address);
    if (!endpoint) continue;
    first ??= endpoint;
    const bound = Math.ceil((requests * endpoint.weight * hashBalanceFactor) / (weights * 100));
    if (requestsOn(endpoint) < bound) return endpoint;
  }
  return first;
}
