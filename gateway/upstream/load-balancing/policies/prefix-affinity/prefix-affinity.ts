import { headOf, promptBytes } from "../../boundary-hashes.ts";
import type { Candidates } from "../../candidates.ts";
import type { HashRing } from "../../hash-ring.ts";
import { type Policy, type PolicyParts, type PolicyPick, policyRow } from "../../policy.ts";
import type { Route } from "../../route.ts";
import { slowStartShare } from "../../slow-start.ts";
import { PlacementMap } from "./placement-map.ts";
import { type PrefixAffinitySettings, prefixAffinitySchema } from "./prefix-affinity-settings.ts";
import { PrefixLearning } from "./prefix-learning.ts";
import { PrefixPlacement } from "./prefix-placement.ts";
import { pickPrefixAffinity } from "./prefix-score.ts";

/** The policy that sends a prompt where most of it is cached. It remembers which endpoint was sent which prefix. */
export const prefixAffinity = policyRow({
  summary: "The endpoint that will have prefilled the prompt first, by what it holds of it and has yet to do.",
  settings: { prefixAffinityLbConfig: prefixAffinitySchema },
  create: ({ prefixAffinityLbConfig }, parts) => new PrefixAffinity(prefixAffinityLbConfig, parts),
});

class PrefixAffinity implements Policy {
  readonly #settings: PrefixAffinitySettings;
  readonly #parts: PolicyParts;
  readonly #placements: PlacementMap;
  readonly #learning: PrefixLearning;
  readonly #ring: HashRing;

  constructor(settings: PrefixAffinitySettings, parts: PolicyParts) {
    this.#settings = settings;
    this.#parts = parts;
    this.#placements = new PlacementMap(settings);
    this.#learning = new PrefixLearning(this.#placements);
    this.#ring = parts.ring();
  }

  pick(candidates: Candidates, route: Route, nowMs: number): PolicyPick | undefined {
    const { prefixes, slowStart, random, work, clock } = this.#parts;
    const found = pickPrefixAffinity(candidates, route, {
      placements: this.#placements,
      prefixes,
      ring: this.#ring,
      learned: this.#learning,
      nowMs,
      shareOf: ({ healthySinceMs }) => slowStartShare(healthySinceMs, nowMs, slowStart),
      random,
      settings: this.#settings,
    });
    if (!found) return undefined;
    const { endpoint, prediction, compared } = found;
    this.#learning.looked(compared);
    const placed = {
      shape: route.shape,
      conversation: `${route.affinityKey} ${headOf(route.shape)}`,
      address: endpoint.address,
      prediction,
      ttlMs: route.ttlMs ?? this.#settings.idleTtlMs,
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
