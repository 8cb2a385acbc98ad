import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { BalancerSettings } from "./balancer-settings.ts";
import { promptBytes } from "./boundary-hashes.ts";
import { type Choice, type LevelWithRoom, pickFrom, usableLevels, withRoom } from "./choose.ts";
import type { EndpointView } from "./endpoint-view.ts";
import type { HashRing } from "./hash-ring.ts";
import type { HeldPrefixes } from "./held-prefixes.ts";
import { createPolicy } from "./policies.ts";
import type { Policy, PolicyPick } from "./policy.ts";
import type { Route } from "./route.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** The tokens to a byte of prompt where the policy has learned nothing better: about what English and code come to. */
const TOKENS_PER_BYTE = 0.25;

/** A cluster whose endpoints are picked, as far as picking needs to know it. */
export type BalancedCluster = {
  /** The settings on how an endpoint is picked. */
  readonly settings: BalancerSettings;
  /** The hash ring of all members by their weights. */
  readonly ring: HashRing;
  /** What the members tell of their caches. */
  readonly prefixes: HeldPrefixes;
  /** Takes snapshots of all members at a monotonic time, for one pick. */
  views(nowMs: number): readonly EndpointView[];
  /** Calls the listener after members joined or left. Returns the function that ends this. */
  onMembersChange(listener: () => void): () => void;
};

/** All endpoints of a cluster at one moment. */
export type Look = {
  /** The endpoints that a pick may choose, be they full or not. */
  readonly usable: readonly EndpointView[];
  /** Returns whether any of them has room for one more request. */
  hasRoom(): boolean;
  /**
   * Picks an endpoint for one try of a request, or says why there is none. `tried` holds the addresses of the endpoints
   * that have had their try.
   */
  pick(route: Route, tried: ReadonlySet<string>): Choice<PolicyPick>;
};

/** Picks endpoints of one cluster: by priority and health, and among equals by the cluster's load-balancing policy. */
export class Balancer {
  readonly #cluster: BalancedCluster;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #policy: Policy;

  /**
   * Makes the balancer of one cluster. `work` is the prefill work on all endpoints of all clusters; `random` returns
   * numbers that are even over [0, 1).
   */
  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, random: () => number) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#random = random;
    const { settings, prefixes } = cluster;
    const { slowStart } = settings;
    this.#policy = createPolicy(settings, { ring: () => cluster.ring, prefixes, slowStart, work, clock, random });
    let known = this.#addresses();
    cluster.onMembersChange(() => {
      const now = this.#addresses();
      for (const address of known) if (!now.has(address)) this.#policy.forget?.(address);
      known = now;
    });
  }

  /**
   * Guesses the number of tokens of a prompt without its tokenizer: from what the policy has learned, else from the
   * prompt's bytes.
   */
  expectedTokens(route: Route): number {
    return this.#policy.expectedTokens?.(route) ?? promptBytes(route.shape) * TOKENS_PER_BYTE;
  }

  /**
   * Takes one look at all endpoints, which serves any number of picks until one of them is taken up: then an endpoint
   * has more to do. `hasRoom` says whether an endpoint may take one more request; it is asked when the first pick is
   * made.
   */
  look(hasRoom: (endpoint: EndpointView) => boolean): Look {
    const nowMs = this.#clock.nowMs();
    const levels = usableLevels(this.#cluster.views(nowMs), this.#cluster.settings);
    let found: readonly LevelWithRoom<EndpointView>[] | undefined;
    const roomy = () => {
      found ??= withRoom(levels, hasRoom);
      return found;
    };
    const policy = (route: Route) => (candidates: readonly EndpointView[]) =>
      this.#policy.pick(candidates, route, nowMs);
    return {
      usable: levels.flatMap(({ usable }) => usable),
      hasRoom: () => roomy().some((level) => level.roomy.length > 0),
      pick: (route, tried) => pickFrom(roomy(), { tried, random: this.#random, policy: policy(route) }),
    };
  }

  /** Makes one pick by a look of its own. */
  pick(route: Route, tried: ReadonlySet<string>, hasRoom: (endpoint: EndpointView) => boolean): Choice<PolicyPick> {
    return this.look(hasRoom).pick(route, tried);
  }

  #addresses(): ReadonlySet<string> {
    return new Set(this.#cluster.views(this.#clock.nowMs()).map(({ address }) => address));
  }
}
