import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { promptBytes } from "./boundary-hashes.ts";
import type { Candidates, EndpointSet, NoPick } from "./endpoint-set.ts";
import { createPolicy, type LbPolicy } from "./policies.ts";
import type { Policy, PolicyPick } from "./policy.ts";
import type { PrefixIndex } from "./prefix-index.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The tokens per byte of prompt before the policy has measured any: typical of English text and code. */
const TOKENS_PER_BYTE = 0.25;

/** The policy's pick, or the reason why there is none. */
export type Choice = { readonly pick: PolicyPick } | { readonly none: NoPick };

export type BalancedCluster = {
  readonly settings: { readonly lbPolicy: LbPolicy };
  readonly endpointSet: EndpointSet;
  readonly prefixes: PrefixIndex;
};

/** Picks endpoints of one cluster by its load-balancing policy. */
export class Balancer {
  readonly #clock: Clock;
  readonly #policy: Policy;

  /** `work` is the prefill work on all endpoints of all clusters; `random` returns numbers uniform over [0, 1). */
  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, random: () => number) {
    this.#clock = clock;
    const { settings, prefixes, endpointSet } = cluster;
    this.#policy = createPolicy(settings.lbPolicy, { prefixes, work, clock, random });
    endpointSet.onLeave((address) => this.#policy.forget?.(address));
  }

  /** Estimates a prompt's tokens by the policy's measured ratio, else by bytes. */
  expectedTokens(route: Route): number {
    return this.#policy.expectedTokens?.(route) ?? promptBytes(route.shape) * TOKENS_PER_BYTE;
  }

  /** Picks an endpoint outside `tried`, or returns why there is none. */
  pick(endpoints: EndpointSet, route: Route, tried: ReadonlySet<string>): Choice {
    return this.#pick(endpoints, endpoints.withRoom, route, tried);
  }

  /** Picks as `pick` does, but includes endpoints without room. */
  pickAnywhere(endpoints: EndpointSet, route: Route, tried: ReadonlySet<string>): Choice {
    return this.#pick(endpoints, endpoints.available, route, tried);
  }

  #pick(endpoints: EndpointSet, from: Candidates, route: Route, tried: ReadonlySet<string>): Choice {
    const untried = without(from, tried);
    const pick = untried.all.length > 0 ? this.#policy.pick(untried, route, this.#clock.nowMs()) : undefined;
    return pick ? { pick } : { none: endpoints.noPick(tried) };
  }
}

/** Reads the candidates only where some address is to be left out. */
function without(candidates: Candidates, addresses: ReadonlySet<string>): Candidates {
  if (addresses.size === 0) return candidates;
  return {
    all: candidates.all.filter(({ address }) => !addresses.has(address)),
    get: (address) => (addresses.has(address) ? undefined : candidates.get(address)),
  };
}
