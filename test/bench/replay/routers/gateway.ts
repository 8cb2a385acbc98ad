import type { Clock } from "../../../../deploy/runtime/time/clock.ts";
import { averageLoad, type LoadAverage } from "../../../../gateway/upstream/endpoint/load-average.ts";
import { Balancer } from "../../../../gateway/upstream/load-balancing/balancer.ts";
import type { EndpointView } from "../../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { HashRing } from "../../../../gateway/upstream/load-balancing/hash-ring.ts";
import { type HeldPrefixes, NOTHING_TOLD } from "../../../../gateway/upstream/load-balancing/held-prefixes.ts";
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
  readonly #work = new WorkLedger();
  readonly #active: number[];
  readonly #averages: (LoadAverage | undefined)[] = [];
  #reports: readonly NodeReport[] = [];

  constructor({ lbPolicy, nodes, clock, random, prefixes = NOTHING_TOLD }: GatewayParts) {
    this.#addresses = Array.from({ length: nodes }, (_, node) => addressOf(node));
    this.#active = this.#addresses.map(() => 0);
    this.#clock = clock;
    const cluster = {
      settings: balancerSettings({ lbPolicy }),
      ring: new HashRing(this.#addresses.map((address) => ({ address, weight: 1 }))),
      prefixes,
      views: () => this.#addresses.map((_, node) => this.#view(node)),
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
    const choice = this.#balancer.pick({ shape, affinityKey, ttlMs: undefined }, new Set(), () => true);
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
        placement?.see([finished(undefined, { inputTokens, cachedInputTokens }, { timings })]);
        placement?.end();
        this.#active[node] = (this.#active[node] ?? 1) - 1;
      },
    });
  }

  #view(node: number): EndpointView {
    const address = this.#addresses[node] ?? "";
    const report = this.#reports[node];
    return {
      address,
      healthy: true,
      compatible: true,
      draining: false,
      ejected: false,
      activeRequests: this.#active[node] ?? 0,
      running: report?.running ?? 0,
      waiting: report?.waiting ?? 0,
      meanRequests: this.#averages[node]?.value ?? 0,
      kvUse: report?.kvUse ?? 0,
      slots: SLOTS,
      weight: 1,
      priority: 0,
      locality: "",
      healthySinceMs: undefined,
      outstandingPrefillTokens: Math.max(this.#work.outstanding(address), report?.queuedUncachedTokens ?? 0),
      prefillTokensPerSecond: this.#work.speed(address) ?? INITIAL_SPEED,
      decodeTokensPerSecond: undefined,
      retentionMs: report?.retentionMs,
    };
  }
}

/** Returns what nodes that tell everything tell of their caches, by the digests of the prompts. */
export function exactPrefixes(
  caches: PieceCaches,
  nodes: number,
  digests: ReadonlyMap<string, Digested>,
): HeldPrefixes {
  return {
    *holders(digest) {
      const digested = digests.get(digest);
      const holders = digested && digested.piece >= 0 ? caches.holders(digested.piece) : 0;
      for (let node = 0; node < nodes; node += 1)
        if (digested && (holders & (1 << node)) !== 0)
          yield { address: addressOf(node), tokens: digested.tokens, tailTokens: 0 };
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
