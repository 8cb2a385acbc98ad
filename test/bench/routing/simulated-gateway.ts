import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { averageLoad, type LoadAverage } from "../../../gateway/upstream/endpoint/load-average.ts";
import { Balancer } from "../../../gateway/upstream/load-balancing/balancer.ts";
import { EndpointLevels } from "../../../gateway/upstream/load-balancing/endpoint-levels.ts";
import type { EndpointView } from "../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../gateway/upstream/load-balancing/endpoint-views.ts";
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
  readonly #clock: Clock;
  readonly #balancer: Balancer;
  readonly #levels: EndpointLevels;
  readonly #work = new WorkLedger();
  readonly #active = new Map<string, number>();
  readonly #averages = new Map<string, LoadAverage>();
  #reports: ReadonlyMap<string, NodeReport> = new Map();

  constructor(lbPolicy: LbPolicy, addresses: readonly string[], clock: Clock, random: () => number) {
    this.#clock = clock;
    const settings = balancerSettings({ lbPolicy });
    const views = new EndpointViews();
    for (const address of addresses) views.set(this.#view(address));
    this.#levels = new EndpointLevels(settings);
    views.follow(this.#levels);
    const cluster = {
      settings,
      prefixes: NOTHING_TOLD,
      views,
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
    const route = { shape, affinityKey, session: affinityKey, ofUser: true, ttlMs: undefined };
    const choice = this.#balancer.pick(this.#levels, route, new Set());
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

  /** Makes the view of a node, which says what holds when it is read. */
  #view(address: string): EndpointView {
    const active = () => this.#active.get(address) ?? 0;
    const report = () => this.#reports.get(address);
    const average = () => this.#averages.get(address)?.value ?? 0;
    const work = this.#work;
    return {
      address,
      healthy: true,
      compatible: true,
      draining: false,
      ejected: false,
      get activeRequests() {
        return active();
      },
      get running() {
        return report()?.running ?? 0;
      },
      get waiting() {
        return report()?.waiting ?? 0;
      },
      get meanRequests() {
        return average();
      },
      kvUse: 0,
      slots: 256,
      weight: 1,
      priority: 0,
      locality: "",
      healthySinceMs: undefined,
      get outstandingPrefillTokens() {
        return Math.max(work.outstanding(address), report()?.queuedUncachedTokens ?? 0);
      },
      get prefillTokensPerSecond() {
        return work.speed(address) ?? INITIAL_SPEED;
      },
      decodeTokensPerSecond: undefined,
      gateways: 1,
      retentionMs: undefined,
      evictedBeforeMs: undefined,
    };
  }
}

function duration(ms: number) {
  return { seconds: Math.floor(ms / 1_000), nanos: Math.round((ms % 1_000) * 1e6) };
}
