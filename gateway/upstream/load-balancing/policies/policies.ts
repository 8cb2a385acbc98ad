import * as z from "zod";
import { type EndpointView, requestsOn, slowStartShare } from "../endpoint-view.ts";
import type { Policy, PolicyParts, PolicyRow } from "../policy.ts";
import { prefixAffinity } from "./prefix-affinity/prefix-affinity.ts";

type WeightOf = (endpoint: EndpointView) => number;

export function slowStartWeights(nowMs: number): WeightOf {
  return (endpoint) => endpoint.weight * slowStartShare(endpoint, nowMs);
}

/**
 * Picks the less loaded of two candidates drawn at random, so that gateways without shared state do not all pick the
 * same one. Load is the number of requests divided by weight. `random` returns numbers uniform over [0, 1).
 */
export function pickLeastRequest(
  candidates: readonly EndpointView[],
  weightOf: WeightOf,
  random: () => number,
): EndpointView | undefined {
  const count = candidates.length;
  const first = Math.floor(random() * count);
  const one = candidates[first];
  if (!one || count === 1) return one;
  const second = Math.floor(random() * (count - 1));
  const other = candidates[second < first ? second : second + 1];
  const loadOf = (endpoint: EndpointView) => (requestsOn(endpoint) + 1) / weightOf(endpoint);
  return other && loadOf(other) < loadOf(one) ? other : one;
}

/**
 * Weighted round robin: every pick adds each candidate's weight to its credit; the candidate with most credit is picked
 * and pays the sum. An endpoint of weight 3 beside two of weight 1 gets three of five picks, interleaved. Among equals
 * the first candidate is picked.
 */
export class RoundRobin {
  readonly #credit = new Map<string, number>();

  pick(candidates: readonly EndpointView[], weightOf: WeightOf): EndpointView | undefined {
    let best: { endpoint: EndpointView; credit: number } | undefined;
    let total = 0;
    for (const endpoint of candidates) {
      const weight = weightOf(endpoint);
      const credit = (this.#credit.get(endpoint.address) ?? 0) + weight;
      this.#credit.set(endpoint.address, credit);
      total += weight;
      if (!best || credit > best.credit) best = { endpoint, credit };
    }
    if (!best) return undefined;
    this.#credit.set(best.endpoint.address, best.credit - total);
    return best.endpoint;
  }

  forget(address: string): void {
    this.#credit.delete(address);
  }
}

const leastRequest: PolicyRow = {
  summary: "The less loaded of two endpoints that are drawn at random.",
  create: ({ random }) => ({
    pick(candidates, _route, nowMs) {
      const endpoint = pickLeastRequest(candidates.all, slowStartWeights(nowMs), random);
      return endpoint && { endpoint };
    },
  }),
};

const roundRobin: PolicyRow = {
  summary: "Every endpoint in its turn, as often as its weight says.",
  create: () => {
    const turns = new RoundRobin();
    return {
      pick(candidates, _route, nowMs) {
        const endpoint = turns.pick(candidates.all, slowStartWeights(nowMs));
        return endpoint && { endpoint };
      },
      forget: (address) => turns.forget(address),
    };
  },
};

export const LB_POLICIES = ["prefix_affinity", "least_request", "round_robin"] as const;

export type LbPolicy = (typeof LB_POLICIES)[number];

export const POLICIES: Readonly<Record<LbPolicy, PolicyRow>> = {
  prefix_affinity: prefixAffinity,
  least_request: leastRequest,
  round_robin: roundRobin,
};

export const balancerShape = {
  lbPolicy: z
    .enum(LB_POLICIES)
    .default("prefix_affinity")
    .describe(
      [
        "The policy by which an endpoint is picked.",
        ...LB_POLICIES.map((name) => `${name}: ${POLICIES[name].summary}`),
      ].join(" "),
    ),
};

export function createPolicy(name: LbPolicy, parts: PolicyParts): Policy {
  return POLICIES[name].create(parts);
}
