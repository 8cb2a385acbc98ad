import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { promptBytes } from "./boundary-hashes.ts";
import type { Candidates } from "./candidates.ts";
import { type Choice, pickFrom } from "./choose.ts";
import type { EndpointViews } from "./endpoint-views.ts";
import type { HeldPrefixes } from "./held-prefixes.ts";
import type { PickableEndpoints } from "./pickable-endpoints.ts";
import { createPolicy, type LbPolicy } from "./policies.ts";
import type { Policy, PolicyPick } from "./policy.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The tokens to a byte of prompt where the policy has learned nothing better: about what English and code come to. */
const TOKENS_PER_BYTE = 0.25;

/** A cluster whose endpoints are picked, as far as picking needs to know it. */
export type BalancedCluster = {
  /** The settings on how an endpoint is picked. */
  readonly settings: { readonly lbPolicy: LbPolicy };
  /** What picks see of the members, kept up to date. */
  readonly views: EndpointViews;
  /** What the members tell of their caches. */
  readonly prefixes: HeldPrefixes;
};

/** Picks endpoints of one cluster by its load-balancing policy. */
export class Balancer {
  readonly #clock: Clock;
  readonly #policy: Policy;

  /**
   * Makes the balancer of one cluster. `work` is the prefill work on all endpoints of all clusters; `random` returns
   * numbers that are even over [0, 1).
   */
  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, random: () => number) {
    this.#clock = clock;
    const { settings, prefixes, views } = cluster;
    this.#policy = createPolicy(settings.lbPolicy, { prefixes, work, clock, random });
    views.follow({ changed() {}, left: ({ address }) => this.#policy.forget?.(address) });
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
  pick(endpoints: PickableEndpoints, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    return this.#pick(endpoints, endpoints.roomy, route, tried);
  }

  /** Picks as `pick` does, but also among the endpoints that have no room. */
  pickAnywhere(endpoints: PickableEndpoints, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    return this.#pick(endpoints, endpoints.available, route, tried);
  }

  #pick(endpoints: PickableEndpoints, from: Candidates, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    const nowMs = this.#clock.nowMs();
    return pickFrom(endpoints, from, tried, (candidates) => this.#policy.pick(candidates, route, nowMs));
  }
}
