import type { EndpointView } from "../endpoint-view.ts";
import type { PolicyRow } from "../policy.ts";
import { slowStartWeights, type WeightOf } from "../slow-start.ts";

/** The policy that takes all endpoints in turn, by weight. */
export const roundRobin: PolicyRow = {
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

/**
 * Weighted round robin: every pick adds each candidate's weight to its credit; the candidate with most credit is picked
 * and pays the sum. An endpoint of weight 3 beside two of weight 1 gets three of five picks, interleaved. Among equals
 * the first candidate is picked.
 */
export class RoundRobin {
  readonly #credit = new Map<string, number>();

  /**
   * Picks the next endpoint; `weightOf` returns the current weight of each. Returns undefined only for an empty list.
   */
  pick<E extends EndpointView>(candidates: readonly E[], weightOf: WeightOf): E | undefined {
    let best: { endpoint: E; credit: number } | undefined;
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

  /** Removes the credit of an endpoint that has left the cluster. */
  forget(address: string): void {
    this.#credit.delete(address);
  }
}
