import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { durationMs } from "../../../deploy/runtime/time/proto-duration.ts";
import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { needsTurns, type Steps } from "../../event-loop-turn.ts";
import { affinityKey } from "./affinity-key.ts";
import { headOf, type PromptShape, promptShape } from "./boundary-hashes.ts";
import { type Choice, choose, usableLevels } from "./choose.ts";
import type { EndpointView } from "./endpoint-view.ts";
import type { HashRing } from "./hash-ring.ts";
import { pickLeastRequest } from "./policies/least-request.ts";
import { DEFAULT_PLACEMENT, PlacementMap } from "./policies/prefix-affinity/placement-map.ts";
import { PrefixLearning } from "./policies/prefix-affinity/prefix-learning.ts";
import { Placement } from "./policies/prefix-affinity/prefix-placement.ts";
import {
  DEFAULT_PREFIX_AFFINITY,
  type Prediction,
  pickPrefixAffinity,
} from "./policies/prefix-affinity/prefix-score.ts";
import { pickRandom } from "./policies/random.ts";
import { pickRingHash } from "./policies/ring-hash.ts";
import { RoundRobin } from "./policies/round-robin.ts";
import type { PrioritySettings } from "./priority-levels.ts";
import type { RoutingHints } from "./routing-hints.ts";
import { type SlowStartSettings, slowStartShare, slowStartWeights } from "./slow-start.ts";
import type { WorkLedger } from "./work-ledger.ts";

/** How long a prefix is expected to stay in an engine when the request does not say. */
const DEFAULT_TTL_MS = 300_000;

/** What picks look at, made once for all tries of a request. */
export type Route = {
  readonly shape: PromptShape;
  readonly affinityKey: string;
  readonly ttlMs: number;
};

/** Where the prompt is big there is a pause at the end too: what comes next is sending it. */
export function* routing(request: GenerateRequest, hints: RoutingHints): Steps<Route> {
  const shape = yield* promptShape(request, hints.prefixKey);
  const { tenant, cache } = request;
  const input = { cacheKey: cache?.affinityKey ?? "", headers: hints.headers, tenant, conversationHead: headOf(shape) };
  const ttl = cache?.ttl;
  if (needsTurns(shape.boundaries.at(-1)?.bytes ?? 0)) yield;
  return {
    shape,
    affinityKey: affinityKey(input, hints.digest).key,
    ttlMs: ttl ? durationMs(ttl) : DEFAULT_TTL_MS,
  };
}

export type Balanced = Choice<EndpointView> & { readonly placement?: Placement | undefined };

export type LbPolicy = "prefix_affinity" | "least_request" | "ring_hash" | "round_robin" | "random";

/** How endpoints of one cluster are picked, as configured. */
export type BalancerSettings = {
  readonly lbPolicy: LbPolicy;
  readonly leastRequestLbConfig: { readonly choiceCount: number };
  readonly ringHashLbConfig: { readonly hashBalanceFactor: number };
  /** Percent. */
  readonly healthyPanicThreshold: number;
  /** Percent. */
  readonly overprovisioningFactor: number;
  readonly slowStart: SlowStartSettings;
};

/** The cluster whose endpoints are picked, as far as picking needs to know it. */
export type BalancedCluster = {
  readonly settings: BalancerSettings;
  /** A hash ring of all members by their weights. */
  readonly ring: HashRing;
  /** Snapshots of all members at a monotonic time, for one pick. */
  views(nowMs: number): readonly EndpointView[];
  /** Calls the listener after members joined or left. Returns what ends the listening. */
  onMembersChange(listener: () => void): () => void;
};

/** The load-balancing policy of one cluster, with what it remembers between picks. */
export class Balancer {
  readonly #cluster: BalancedCluster;
  readonly #work: WorkLedger;
  readonly #clock: Clock;
  readonly #chance: () => number;
  readonly #placements = new PlacementMap(DEFAULT_PLACEMENT);
  readonly #learning = new PrefixLearning(this.#placements);
  readonly #roundRobin = new RoundRobin();

  constructor(cluster: BalancedCluster, work: WorkLedger, clock: Clock, chance: () => number) {
    this.#cluster = cluster;
    this.#work = work;
    this.#clock = clock;
    this.#chance = chance;
    let known = new Set<string>();
    cluster.onMembersChange(() => {
      const now = new Set(cluster.views(clock.nowMs()).map(({ address }) => address));
      for (const address of known) if (!now.has(address)) this.#forget(address);
      known = now;
    });
  }

  /** Tokens of a prompt, as far as they can be guessed without its tokenizer. */
  expectedTokens({ shape }: Route): number {
    return (shape.boundaries.at(-1)?.bytes ?? 0) * this.#learning.tokensPerByte;
  }

  /** All endpoints that a pick may choose now. */
  usable(): readonly EndpointView[] {
    const views = this.#cluster.views(this.#clock.nowMs());
    return usableLevels(views, this.#priorities()).flatMap(({ usable }) => usable);
  }

  /** One pick; `tried`: addresses that had their try. */
  pick(route: Route, tried: ReadonlySet<string>, hasRoom: (endpoint: EndpointView) => boolean): Balanced {
    const nowMs = this.#clock.nowMs();
    let prediction: Prediction | undefined;
    const choice = choose(this.#cluster.views(nowMs), {
      tried,
      hasRoom,
      chance: this.#chance,
      priorities: this.#priorities(),
      policy: (candidates) => {
        const found = this.#policy(candidates, route, nowMs);
        prediction = found?.prediction;
        return found?.endpoint;
      },
    });
    if (!("pick" in choice) || !prediction) return choice;
    const placed = { shape: route.shape, address: choice.pick.address, prediction, ttlMs: route.ttlMs };
    return { ...choice, placement: new Placement(placed, this.#learning, this.#work, this.#clock) };
  }

  #priorities(): PrioritySettings {
    const { overprovisioningFactor, healthyPanicThreshold } = this.#cluster.settings;
    return { overprovisioningPercent: overprovisioningFactor, panicThresholdPercent: healthyPanicThreshold };
  }

  /** What an endpoint that left had in its cache is gone with it. */
  #forget(address: string): void {
    this.#placements.forgetEndpoint(address);
    this.#roundRobin.forget(address);
  }

  #policy(
    candidates: readonly EndpointView[],
    route: Route,
    nowMs: number,
  ): { readonly endpoint: EndpointView; readonly prediction?: Prediction } | undefined {
    const { settings, ring } = this.#cluster;
    const weightOf = slowStartWeights(nowMs, settings.slowStart);
    const only = (endpoint: EndpointView | undefined) => endpoint && { endpoint };
    switch (settings.lbPolicy) {
      case "prefix_affinity":
        return pickPrefixAffinity(candidates, route, {
          placements: this.#placements,
          ring,
          tokensPerByte: this.#learning.tokensPerByte,
          nowMs,
          shareOf: ({ healthySinceMs }) => slowStartShare(healthySinceMs, nowMs, settings.slowStart),
          chance: this.#chance,
          settings: DEFAULT_PREFIX_AFFINITY,
        });
      case "least_request":
        return only(pickLeastRequest(candidates, settings.leastRequestLbConfig.choiceCount, weightOf, this.#chance));
      case "ring_hash":
        return only(pickRingHash(candidates, ring, route.affinityKey, settings.ringHashLbConfig.hashBalanceFactor));
      case "round_robin":
        return only(this.#roundRobin.pick(candidates, weightOf));
      case "random":
        return only(pickRandom(candidates, weightOf, this.#chance));
      default:
        settings.lbPolicy satisfies never;
        return undefined;
    }
  }
}
