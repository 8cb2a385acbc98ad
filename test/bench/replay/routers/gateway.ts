import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { averageLoad, type LoadAverage } from "../../../../gateway/upstream/endpoint/load-average.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import { EndpointLevels } from "../../../../gateway/upstream/load-balancing/endpoint-levels.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { EndpointViews } from "../../../../gateway/upstream/load-balancing/endpoint-views.ts";
import {
  type HeldPrefix,
  type HeldPrefixes,
  NOTHING_TOLD,
} from "../../../../gateway/upstream/load-balancing/held-prefixes.ts";
import type { LbPolicy } from "../../../../gateway/upstream/load-balancing/policies.ts";
import { WorkLedger } from "../../../../gateway/upstream/load-balancing/work-ledger.ts";
import { delta, finished, started } from "../../../support/events/events.ts";
import { balancerSettings } from "../../../support/gateway/balancer-settings.ts";
import type { PieceCaches } from "../piece-cache.ts";
import type { Digested } from "../played-session.ts";
import type { Prompt } from "../prompt.ts";
import type { NodeReport } from "../replay-node.ts";
import type { Follower, Router } from "./router.ts";

/** The prefill speed that a gateway assumes of a node until it has measured one, as the gateway's members do. */
const INITIAL_SPEED = 5_000;
/** The slots of a node: more than are ever needed. */
const SLOTS = 256;

/** What a gateway of the replay is made of. */
export type GatewayParts = {
  readonly lbPolicy: LbPolicy;
  readonly nodes: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** What the nodes tell of their caches; undefined where they tell nothing. */
  readonly prefixes: HeldPrefixes | undefined;
};

/** One gateway: the real `Balancer` with the default settings, in front of nodes that report once a second. */
export class Gateway implements Router {
  readonly #addresses: readonly string[];
  readonly #clock: Clock;
  readonly #balancer: Balancer;
  readonly #levels: EndpointLevels;
  readonly #work = new WorkLedger();
  readonly #active: number[];
  readonly #averages: (LoadAverage | undefined)[] = [];
  #reports: readonly NodeReport[] = [];

  constructor({ lbPolicy, nodes, clock, random, prefixes = NOTHING_TOLD }: GatewayParts) {
    this.#addresses = Array.from({ length: nodes }, (_, node) => addressOf(node));
    this.#active = this.#addresses.map(() => 0);
    this.#clock = clock;
    const settings = balancerSettings({ lbPolicy });
    const views = new EndpointViews();
    for (let node = 0; node < nodes; node += 1) views.set(this.#view(node));
    this.#levels = new EndpointLevels(settings);
    views.follow(this.#levels);
    const cluster = {
      settings,
      prefixes,
      views,
      // The members stay the same throughout.
      onMembersChange: () => () => {},
    };
    this.#balancer = new Balancer(cluster, this.#work, clock, random);
  }

  /** Takes what the nodes say of themselves, once a second. */
  reported(reports: readonly NodeReport[]): void {
    this.#reports = reports;
    for (const [node, { running, waiting }] of reports.entries())
      this.#averages[node] = averageLoad(this.#averages[node], running + waiting, this.#clock.nowMs());
  }

  /** Sends a request where the balancer picks. */
  send(prompt: Prompt, dispatch: (node: number, follower?: Follower) => void): void {
    const { affinityKey, shape, tokens: inputTokens } = prompt;
    const choice = this.#balancer.pick(this.#levels, { shape, affinityKey, ttlMs: undefined }, new Set());
    if ("none" in choice) throw new Error(`no pick: ${choice.none}`);
    const { endpoint, placement } = choice.pick;
    const node = this.#addresses.indexOf(endpoint.address);
    this.#active[node] = (this.#active[node] ?? 0) + 1;
    placement?.begin();
    let cachedInputTokens = 0;
    dispatch(node, {
      started: (cachedTokens) => {
        cachedInputTokens = cachedTokens;
        placement?.see([started({ inputTokens, cachedInputTokens })]);
      },
      firstToken: () => placement?.see([delta(0, "a")]),
      finished: (prefillMs) => {
        const timings = { queue: duration(0), prefill: duration(prefillMs), decode: undefined };
        placement?.see([
          finished(undefined, { inputTokens, cachedInputTokens, outputTokens: prompt.outputTokens }, { timings }),
        ]);
        placement?.end();
        this.#active[node] = (this.#active[node] ?? 1) - 1;
      },
    });
  }

  /** Makes the view of a node, which says what holds when it is read. */
  #view(node: number): EndpointView {
    const address = addressOf(node);
    const active = () => this.#active[node] ?? 0;
    const report = () => this.#reports[node];
    const average = () => this.#averages[node]?.value ?? 0;
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
      get kvUse() {
        return report()?.kvUse ?? 0;
      },
      slots: SLOTS,
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
      get retentionMs() {
        return report()?.retentionMs;
      },
    };
  }
}

/** Returns what nodes that tell everything tell of their caches, by the digests of the prompts. */
export function exactPrefixes(
  caches: PieceCaches,
  nodes: number,
  digests: ReadonlyMap<string, Digested>,
): HeldPrefixes {
  const addresses = Array.from({ length: nodes }, (_, node) => addressOf(node));
  return {
    holders(digest) {
      const digested = digests.get(digest);
      const holders = digested && digested.piece >= 0 ? caches.holders(digested.piece) : 0;
      const held: HeldPrefix[] = [];
      for (let node = 0; node < nodes && holders !== 0; node += 1)
        if (digested && (holders & (1 << node)) !== 0)
          held.push({ address: addresses[node] ?? "", tokens: digested.tokens, tailTokens: 0 });
      return held;
    },
    fillOf(address) {
      return { usedTokens: caches.tokens(nodeOf(address)), totalTokens: caches.capacity };
    },
  };
}

function addressOf(node: number): string {
  return `10.0.0.${node + 1}:50051`;
}

function nodeOf(address: string): number {
  return Number(address.slice("10.0.0.".length, address.indexOf(":"))) - 1;
}

function duration(ms: number) {
  return { seconds: Math.floor(ms / 1_000), nanos: Math.round((ms % 1_000) * 1e6) };
}
