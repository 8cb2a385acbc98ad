import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { BalancerSettings } from "./balancer-settings.ts";
import { promptBytes } from "./boundary-hashes.ts";
import { type Choice, pickFrom } from "./choose.ts";
import type { EndpointLevels } from "./endpoint-levels.ts";
import type { EndpointViews } from "./endpoint-views.ts";
import { HashRing } from "./hash-ring.ts";
import type { HeldPrefixes } from "./held-prefixes.ts";
import { createPolicy } from "./policies.ts";
import type { Policy, PolicyPick, SharedConversations } from "./policy.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The tokens to a byte of prompt where the policy has learned nothing better: about what English and code come to. */
const TOKENS_PER_BYTE = 0.25;

/** A cluster whose endpoints are picked, as far as picking needs to know it. */
export type BalancedCluster = {
  /** The settings on how an endpoint is picked. */
  readonly settings: BalancerSettings;
  /** What picks see of the members, kept up to date. */
  readonly views: EndpointViews;
  /** What the members tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /**
   * Calls the listener after members joined, left or changed their weight, once for all that did so together. Returns
   * the function that ends this.
   */
  onMembersChange(listener: () => void): () => void;
};

/**
 * Picks endpoints of one cluster by its load-balancing policy, among those that `EndpointLevels` has at their priority.
 */
export class Balancer {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #policy: Policy;

  /**
   * Makes the balancer of one cluster. `work` is the prefill work on all endpoints of all clusters; `random` returns
   * numbers that are even over [0, 1).
   */
  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
    const { settings, prefixes, views } = cluster;
    const { slowStart } = settings;
    let ring: HashRing | undefined;
    const ringOfMembers = () => {
      if (ring) return ring;
      const made = new HashRing(views);
      cluster.onMembersChange(() => made.update(views));
      ring = made;
      return made;
    };
    this.#policy = createPolicy(settings, { ring: ringOfMembers, prefixes, slowStart, work, clock, random });
    views.follow({ changed() {}, left: ({ address }) => this.#policy.forget?.(address) });
  }

  /** What gateways tell each other of where conversations are; undefined where the policy does not go by them. */
  get conversations(): SharedConversations | undefined {
    return this.#policy.conversations;
  }

  /**
   * Guesses the number of tokens of a prompt without its tokenizer: from what the policy has learned, else from the
   * prompt's bytes.
   */
  expectedTokens(route: Route): number {
    return this.#policy.expectedTokens?.(route) ?? promptBytes(route.shape) * TOKENS_PER_BYTE;
  }

  /**
   * Picks an endpoint for one try of a request, or says why there is none. `tried` holds the addresses of the endpoints
   * that have had their try.
   */
  pick({ levels }: EndpointLevels, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    const nowMs = this.#clock.nowMs();
    return pickFrom(levels, {
      tried,
      random: this.#random,
      policy: (candidates) => this.#policy.pick(candidates, route, nowMs),
    });
  }

  /** Picks as `pick` does, but also among the endpoints that have no room. */
  pickAnywhere({ levels }: EndpointLevels, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    const nowMs = this.#clock.nowMs();
    return pickFrom(
      levels.map((level) => ({ ...level, roomy: level.usable })),
      { tried, random: this.#random, policy: (candidates) => this.#policy.pick(candidates, route, nowMs) },
    );
  }
}
