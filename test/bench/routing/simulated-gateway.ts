import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { averageLoad, type LoadAverage } from "../../../gateway/upstream/endpoint/load-average.ts";
import { Balancer } from "../../../gateway/upstream/load-balancing/balancer.ts";
import type { EndpointView } from "../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { HashRing } from "../../../gateway/upstream/load-balancing/hash-ring.ts";
import { NOTHING_TOLD } from "../../../gateway/upstream/load-balancing/held-prefixes.ts";
import type { LbPolicy } from "../../../gateway/upstream/load-balancing/policies.ts";
import type { Placement } from "../../../gateway/upstream/load-balancing/policy.ts";
import { WorkLedger } from "../../../gateway/upstream/load-balancing/work-ledger.ts";
import { delta, finished, started } from "../../support/events/events.ts";
import { balancerSettings } from "../../support/gateway/balancer-settings.ts";
import type { AgentSession } from "./agent-session.ts";
import type { NodeReport } from "./simulated-node.ts";

/** What a gateway does about one request on one endpoint. */
export type Dispatched = {
  readonly address: string;
  /** The engine has taken the prompt up: it says how many of its tokens are cached. */
  started(cachedTokens: number): void;
  firstToken(): void;
  /** The engine has sent the whole answer, and says at its end how long the prefill took. */
  finished(prefillMs: number): void;
};

/** The prefill speed that a gateway assumes of a node until it has measured one, as the gateway's members do. */
const INITIAL_SPEED = 5_000;

/** One gateway: the real `Balancer` with the default settings, in front of members that know what reports say. */
export class SimulatedGateway {
  readonly #addresses: readonly string[];
  readonly #clock: Clock;
  readonly #balancer: Balancer;
  readonly #work = new WorkLedger();
  readonly #active = new Map<string, number>();
  readonly #averages = new Map<string, LoadAverage>();
  #reports: ReadonlyMap<string, NodeReport> = new Map();

  constructor(lbPolicy: LbPolicy, addresses: readonly string[], clock: Clock, random: () => number) {
    this.#addresses = addresses;
    this.#clock = clock;
    const cluster = {
      settings: balancerSettings({ lbPolicy }),
      ring: new HashRing(addresses.map((address) => ({ address, weight: 1 }))),
      prefixes: NOTHING_TOLD,
      views: () => this.#addresses.map((address) => this.#view(address, this.#reports.get(address))),
      // The members stay the same throughout.
      onMembersChange: () => () => {},
    };
    this.#balancer = new Balancer(cluster, this.#work, clock, random);
  }

  /** Takes what the nodes say of themselves, once a second. */
  reported(reports: ReadonlyMap<string, NodeReport>): void {
    this.#reports = reports;
    for (const [address, { running, waiting }] of reports) {
      this.#averages.set(address, averageLoad(this.#averages.get(address), running + waiting, this.#clock.nowMs()));
    }
  }

  dispatch({ affinityKey, shape, promptTokens }: AgentSession): Dispatched {
    const route = { shape, affinityKey, ttlMs: undefined };
    const choice = this.#balancer.pick(route, new Set(), () => true);
    if ("none" in choice) throw new Error(`no pick: ${choice.none}`);
    const { endpoint, placement } = choice.pick;
    return this.#send(endpoint.address, placement, promptTokens);
  }

  #send(address: string, placement: Placement | undefined, inputTokens: number): Dispatched {
    this.#active.set(address, (this.#active.get(address) ?? 0) + 1);
    placement?.begin();
    let cachedInputTokens = 0;
    return {
      address,
      started: (cachedTokens) => {
        cachedInputTokens = cachedTokens;
        placement?.see([started({ inputTokens, cachedInputTokens })]);
      },
      firstToken: () => placement?.see([delta(0, "a")]),
      finished: (prefillMs) => {
        const usage = { inputTokens, cachedInputTokens };
        const timings = { queue: duration(0), prefill: duration(prefillMs), decode: undefined };
        placement?.see([finished(undefined, usage, { timings })]);
        placement?.end();
        this.#active.set(address, (this.#active.get(address) ?? 1) - 1);
      },
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
      outstandingPrefillTokens: Math.max(this.#work.outstanding(address), report?.queuedUncachedTokens ?? 0),
      prefillTokensPerSecond: this.#work.speed(address) ?? INITIAL_SPEED,
      decodeTokensPerSecond: undefined,
      retentionMs: undefined,
    };
  }
}

function duration(ms: number) {
  return { seconds: Math.floor(ms / 1_000), nanos: Math.round((ms % 1_000) * 1e6) };
}
