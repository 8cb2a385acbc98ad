import { headOf, promptBytes } from "../../boundary-hashes.ts";
import type { Candidates } from "../../candidates.ts";
import type { Policy, PolicyParts, PolicyPick, PolicyRow } from "../../policy.ts";
import type { Route } from "../../route.ts";
import { slowStartShare } from "../../slow-start.ts";
import { PlacementMap } from "./placement-map.ts";
import { PrefixLearning } from "./prefix-learning.ts";
import { PrefixPlacement } from "./prefix-placement.ts";
import { pickPrefixAffinity } from "./prefix-score.ts";

/** The policy that sends a prompt to the endpoint with most of it cached, by reported and by sent prefixes. */
export const prefixAffinity: PolicyRow = {
  summary: "The endpoint that will have prefilled the prompt first, by what it holds of it and has yet to do.",
  create: (parts) => new PrefixAffinity(parts),
};

/**
 * The time for which an engine is believed to keep a prefix after its last use, in milliseconds, when neither the
 * request sets it nor the node reports its retention.
 */
export const BELIEVED_MS = 3_600_000;

class PrefixAffinity implements Policy {
  readonly #parts: PolicyParts;
  readonly #placements: PlacementMap;
  readonly #learning: PrefixLearning;

  constructor(parts: PolicyParts) {
    this.#parts = parts;
    this.#placements = new PlacementMap();
    this.#learning = new PrefixLearning(this.#placements);
  }

  pick(candidates: Candidates, route: Route, nowMs: number): PolicyPick | undefined {
    const { prefixes, random, work, clock } = this.#parts;
    const found = pickPrefixAffinity(candidates, route, {
      placements: this.#placements,
      prefixes,
      learned: this.#learning,
      nowMs,
      shareOf: ({ healthySinceMs }) => slowStartShare(healthySinceMs, nowMs),
      random,
    });
    if (!found) return undefined;
    const { endpoint, prediction, compared } = found;
    this.#learning.looked(compared);
    const placed = {
      shape: route.shape,
      conversation: `${route.affinityKey} ${headOf(route.shape)}`,
      address: endpoint.address,
      prediction,
      ttlMs: route.ttlMs ?? BELIEVED_MS,
    };
    const { uncachedTokens } = prediction;
    return { endpoint, uncachedTokens, placement: new PrefixPlacement(placed, this.#learning, work, clock) };
  }

  expectedTokens({ shape }: Route): number {
    return promptBytes(shape) * this.#learning.tokensPerByte;
  }

  forget(address: string): void {
    this.#placements.forgetEndpoint(address);
    this.#learning.workingSets.forget(address);
  }
}
