import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { promptBytes } from "./boundary-hashes.ts";
import type { Candidates } from "./candidates.ts";
import { type Choice, pickFrom } from "./choose.ts";
import type { EndpointViews } from "./endpoint-views.ts";
import type { PickableEndpoints } from "./pickable-endpoints.ts";
import { createPolicy, type LbPolicy } from "./policies.ts";
import type { Policy, PolicyPick } from "./policy.ts";
import type { PrefixIndex } from "./prefix-index.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The tokens per byte of prompt before the policy has measured any: typical of English text and code. */
const TOKENS_PER_BYTE = 0.25;

/** The part of a cluster that its balancer uses. */
export type BalancedCluster = {
  readonly settings: { readonly lbPolicy: LbPolicy };
  /** The members' views, kept up to date. */
  readonly views: EndpointViews;
  /** The prefixes on the members. */
  readonly prefixes: PrefixIndex;
};

/** Picks endpoints of one cluster by its load-balancing policy. */
export class Balancer {
  readonly #clock: Clock;
  readonly #policy: Policy;

  /** `work` is the prefill work on all endpoints of all clusters; `random` returns numbers uniform over [0, 1). */
  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, random: () => number) {
    this.#clock = clock;
    const { settings, prefixes, views } = cluster;
    this.#policy = createPolicy(settings.lbPolicy, { prefixes, work, clock, random });
    views.follow({ changed() {}, left: ({ address }) => this.#policy.forget?.(address) });
  }

  /**
   * Estimates the number of tokens of a prompt without its tokenizer: by the policy's measured ratio, else by the
   * prompt's bytes.
   */
  expectedTokens(route: Route): number {
    return this.#policy.expectedTokens?.(route) ?? promptBytes(route.shape) * TOKENS_PER_BYTE;
  }

  /**
   * Picks an endpoint for one attempt of a request, or returns why there is none. `tried` holds the addresses of the
   * endpoints already attempted.
   */
  pick(endpoints: PickableEndpoints, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    return this.#pick(endpoints, endpoints.roomy, route, tried);
  }

  /** Picks as `pick` does, but includes endpoints without room. */
  pickAnywhere(endpoints: PickableEndpoints, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    return this.#pick(endpoints, endpoints.available, route, tried);
  }

  #pick(endpoints: PickableEndpoints, from: Candidates, route: Route, tried: ReadonlySet<string>): Choice<PolicyPick> {
    const nowMs = this.#clock.nowMs();
    return pickFrom(endpoints, from, tried, (candidates) => this.#policy.pick(candidates, route, nowMs));
  }
}
