import { averageLoad, type LoadAverage } from "../../../gateway/upstream/endpoint/load-average.ts";
import { choose } from "../../../gateway/upstream/load-balancing/choose.ts";
import type { EndpointView } from "../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { HashRing } from "../../../gateway/upstream/load-balancing/hash-ring.ts";
import {
  DEFAULT_CHOICE_COUNT,
  pickLeastRequest,
} from "../../../gateway/upstream/load-balancing/policies/least-request.ts";
import {
  DEFAULT_PLACEMENT,
  PlacementMap,
} from "../../../gateway/upstream/load-balancing/policies/prefix-affinity/placement-map.ts";
import { PrefixLearning } from "../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-learning.ts";
import {
  DEFAULT_PREFIX_AFFINITY,
  type Prediction,
  pickPrefixAffinity,
} from "../../../gateway/upstream/load-balancing/policies/prefix-affinity/prefix-score.ts";
import { pickRandom } from "../../../gateway/upstream/load-balancing/policies/random.ts";
import {
  DEFAULT_HASH_BALANCE_FACTOR,
  pickRingHash,
} from "../../../gateway/upstream/load-balancing/policies/ring-hash.ts";
import { RoundRobin } from "../../../gateway/upstream/load-balancing/policies/round-robin.ts";
import { DEFAULT_PRIORITIES } from "../../../gateway/upstream/load-balancing/priority-levels.ts";
import { WorkLedger } from "../../../gateway/upstream/load-balancing/work-ledger.ts";
import type { AgentSession } from "./agent-session.ts";
import type { NodeReport } from "./simulated-node.ts";

export type SimulatedPolicy = "round_robin" | "random" | "least_request" | "ring_hash" | "prefix_affinity";

/** What a gateway does about one request on one endpoint. */
export type Dispatched = {
  readonly address: string;
  firstToken(inputTokens: number, cachedTokens: number, prefillMs: number, nowMs: number): void;
  finished(): void;
};

const TTL_MS = 300_000;
/** Until a node's speed is measured. */
const INITIAL_SPEED = 5_000;

/** One gateway with the real policies, which knows only what a real one would know. */
export class SimulatedGateway {
  readonly #policy: SimulatedPolicy;
  readonly #chance: () => number;
  readonly #addresses: readonly string[];
  readonly #ring: HashRing;
  readonly #placements = new PlacementMap(DEFAULT_PLACEMENT);
  readonly #learning = new PrefixLearning(this.#placements);
  readonly #ledger = new WorkLedger();
  readonly #roundRobin = new RoundRobin();
  readonly #active = new Map<string, number>();
  readonly #averages = new Map<string, LoadAverage>();
  #reports: ReadonlyMap<string, NodeReport> = new Map();

  constructor(policy: SimulatedPolicy, addresses: readonly string[], chance: () => number) {
    this.#policy = policy;
    this.#addresses = addresses;
    this.#chance = chance;
    this.#ring = new HashRing(addresses.map((address) => ({ address, weight: 1 })));
  }

  /** What the nodes say of themselves, once a second. */
  reported(reports: ReadonlyMap<string, NodeReport>, nowMs: number): void {
    this.#reports = reports;
    for (const [address, { running, waiting }] of reports) {
      this.#averages.set(address, averageLoad(this.#averages.get(address), running + waiting, nowMs));
    }
  }

  dispatch(session: AgentSession, nowMs: number): Dispatched {
    const { affinityKey, shape } = session;
    let prediction: Prediction | undefined;
    const choice = choose(
      this.#addresses.map((address) => this.#view(address, this.#reports.get(address))),
      {
        tried: new Set<string>(),
        hasRoom: () => true,
        priorities: DEFAULT_PRIORITIES,
        chance: this.#chance,
        policy: (candidates) => {
          const weightOf = ({ weight }: EndpointView) => weight;
          switch (this.#policy) {
            case "round_robin":
              return this.#roundRobin.pick(candidates, weightOf);
            case "random":
              return pickRandom(candidates, weightOf, this.#chance);
            case "least_request":
              return pickLeastRequest(candidates, DEFAULT_CHOICE_COUNT, weightOf, this.#chance);
            case "ring_hash":
              return pickRingHash(candidates, this.#ring, affinityKey, DEFAULT_HASH_BALANCE_FACTOR);
            case "prefix_affinity": {
              const picked = pickPrefixAffinity(
                candidates,
                { affinityKey, shape },
                {
                  placements: this.#placements,
                  ring: this.#ring,
                  tokensPerByte: this.#learning.tokensPerByte,
                  nowMs,
                  shareOf: () => 1,
                  chance: this.#chance,
                  settings: DEFAULT_PREFIX_AFFINITY,
                },
              );
              prediction = picked?.prediction;
              return picked?.endpoint;
            }
            default:
              return this.#policy satisfies never;
          }
        },
      },
    );
    if (!("pick" in choice)) throw new Error(`no pick: ${choice.none}`);
    return this.#send(choice.pick.address, session, prediction, nowMs);
  }

  #send(address: string, { shape }: AgentSession, prediction: Prediction | undefined, nowMs: number): Dispatched {
    const placed = prediction && { shape, address, prediction, ttlMs: TTL_MS };
    if (placed) this.#learning.dispatched(placed, nowMs);
    const work = this.#ledger.add(address, prediction?.uncachedTokens ?? 0);
    this.#active.set(address, (this.#active.get(address) ?? 0) + 1);
    return {
      address,
      firstToken: (inputTokens, cachedInputTokens, prefillMs, firstTokenMs) => {
        work.done();
        this.#ledger.measured(address, inputTokens - cachedInputTokens, prefillMs);
        if (placed) this.#learning.prefilled(placed, { inputTokens, cachedInputTokens }, firstTokenMs);
      },
      finished: () => this.#active.set(address, (this.#active.get(address) ?? 1) - 1),
    };
  }

  #view(address: string, report: NodeReport | undefined): EndpointView {
    return {
      address,
      healthy: true,
      compatible: true,
      draining: false,
      ejected: false,
      activeRequests: this.#active.get(address) ?? 0,
      running: report?.running ?? 0,
      waiting: report?.waiting ?? 0,
      meanRequests: this.#averages.get(address)?.value ?? 0,
      kvUse: 0,
      slots: 256,
      weight: 1,
      priority: 0,
      locality: "",
      healthySinceMs: undefined,
      outstandingPrefillTokens: Math.max(this.#ledger.outstanding(address), report?.queuedUncachedTokens ?? 0),
      prefillTokensPerSecond: this.#ledger.speed(address) ?? INITIAL_SPEED,
    };
  }
}
