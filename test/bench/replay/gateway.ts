import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { AdmissionController } from "../../../gateway/upstream/admission/admission-controller.ts";
import type { Admitted } from "../../../gateway/upstream/admission/slot-request.ts";
import { clustersSchema } from "../../../gateway/upstream/cluster/cluster-settings.ts";
import { type Evictions, evictionsWith } from "../../../gateway/upstream/endpoint/load-reports.ts";
import { EndpointSet } from "../../../gateway/upstream/load-balancing/endpoint-set.ts";
import type { EndpointView } from "../../../gateway/upstream/load-balancing/endpoint-view.ts";
import { createPolicy, type LbPolicy } from "../../../gateway/upstream/load-balancing/policies/policies.ts";
import type { NoteSink } from "../../../gateway/upstream/load-balancing/policy.ts";
import {
  type AnnouncedPrefix,
  type AnnouncedPrefixes,
  PrefixIndex,
} from "../../../gateway/upstream/load-balancing/prefix-index.ts";
import type { RoutingHints } from "../../../gateway/upstream/load-balancing/route.ts";
import { WorkLedger } from "../../../gateway/upstream/load-balancing/work-ledger.ts";
import { LEAST_MOVED_TOKENS, PrefillPool } from "../../../gateway/upstream/prefill/prefill-pool.ts";
import { delta, finished, progress, started } from "../../support/events/events.ts";
import type { ReasonJudge } from "./reason-judge.ts";
import { cachedIn, type NodeReport } from "./replay-node.ts";
import type { AnnouncedCaches, Follower, Router } from "./router.ts";
import type { Digested, Prompt } from "./traffic.ts";

const INITIAL_SPEED = 5_000;
/** The slots of a node that has none: more than it needs. */
const ENOUGH_SLOTS = 256;
/** The maximum waiting requests of a gateway; the replay does not examine queue limits. */
const MAX_WAITING = 100_000;
/** The maximum wait for a free slot, in milliseconds. */
const PENDING_MS = 3_600_000;
const MODEL = "model";
const NEVER = new AbortController().signal;
const HINTS: RoutingHints = {
  ...{ digest: (...parts) => parts.join(" "), headers: {}, priorityClass: "default", weight: 1, keyId: "key" },
  maxPendingRequests: undefined,
};

export type GatewayParts = {
  readonly lbPolicy: LbPolicy;
  readonly nodes: number;
  /** The last of these, which only read prompts for the others. */
  readonly prefillNodes: number;
  readonly ranks: number;
  /** The slots of a rank; undefined where it has none. */
  readonly slots: number | undefined;
  readonly gateways: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** The nodes' announced prefixes; undefined where they announce none. */
  readonly announced: AnnouncedPrefixes | undefined;
  readonly judge: ReasonJudge;
  readonly number: number;
};

type Side = { readonly endpoints: EndpointSet; readonly admission: AdmissionController<string> };

/** A gateway: the real admission and policy with default settings, in front of nodes that report their load. */
export class Gateway implements Router {
  readonly #parts: GatewayParts;
  readonly #addresses: readonly string[];
  readonly #answering: Side;
  readonly #reading: Side;
  readonly #pool: PrefillPool<string> | undefined;
  readonly #work = new WorkLedger();
  readonly #active: number[];
  readonly #evictions: (Evictions | undefined)[] = [];
  readonly #reports: NodeReport[] = [];

  constructor(parts: GatewayParts) {
    const { nodes, prefillNodes } = parts;
    this.#parts = parts;
    this.#addresses = Array.from({ length: nodes }, (_, node) => addressOf(node));
    this.#active = this.#addresses.map(() => 0);
    this.#answering = this.#side(0, nodes - prefillNodes);
    this.#reading = this.#side(nodes - prefillNodes, nodes);
    const ofGroup = { member: () => ({ description: { handOverGroup: "group" } }) };
    const { endpoints: endpointSet, admission } = this.#reading;
    const reading = { cluster: { ...ofGroup, endpointSet }, admission };
    if (prefillNodes > 0) this.#pool = new PrefillPool(ofGroup, reading, LEAST_MOVED_TOKENS);
  }

  /** Makes the admission of some of the nodes. */
  #side(from: number, to: number): Side {
    const { lbPolicy, clock, random, announced } = this.#parts;
    const endpoints = new EndpointSet({ clock });
    const [settings] = clustersSchema.parse([
      {
        ...{ type: "static", model: MODEL, lbPolicy },
        endpoints: this.#addresses.slice(from, to).map((address) => ({ address })),
        circuitBreakers: { maxPendingRequests: MAX_WAITING },
      },
    ]);
    if (!settings) throw new Error("there is no cluster");
    const prefixes = new PrefixIndex(announced, endpoints);
    for (let node = from; node < to; node += 1) endpoints.set(this.#view(node));
    const cluster = {
      ...{ settings, endpointSet: endpoints, mayHaveEndpoints: true, announcedMs: 0 },
      member: (address: string) => address,
      // The members never change.
      onMembersChange: () => () => {},
      onHealthChange: () => () => {},
    };
    const policy = createPolicy(settings.lbPolicy, { prefixes, work: this.#work, clock, random });
    return { endpoints, admission: new AdmissionController(cluster, policy, clock, random) };
  }

  reported(node: number, report: NodeReport): void {
    this.#reports[node] = report;
    this.#evictions[node] = evictionsWith(this.#evictions[node], report.retentionMs, this.#parts.clock.nowMs());
    for (const { endpoints } of [this.#answering, this.#reading]) {
      const view = endpoints.get(addressOf(node));
      if (view) endpoints.set(view);
    }
  }

  send(prompt: Prompt, dispatch: Parameters<Router["send"]>[1]): void {
    const { affinityKey, shape } = prompt;
    const request = {
      ...{
        route: { shape, affinityKey, ttlMs: undefined },
        tenant: "tenant",
        hints: { ...HINTS, maxPendingRequests: MAX_WAITING },
        tried: new Set<string>(),
      },
      ...{ timeoutMs: PENDING_MS, keepsAlive: true, holdMs: 0, bytes: 0, underWay: false },
      readers: this.#pool,
    };
    void this.#answering.admission.acquire(request, NEVER).then((place) => {
      if (typeof place === "string") throw new Error(`no place: ${place}`);
      const reader = place.reader && {
        node: this.#addresses.indexOf(place.reader.member),
        follower: this.#follower({ ...prompt, outputTokens: 0 }, place.reader),
      };
      dispatch(this.#addresses.indexOf(place.member), this.#follower(prompt, place), reader);
    });
  }

  #follower(prompt: Prompt, { member, observer, release }: Admitted<string>): Follower {
    const { tokens: inputTokens, outputTokens } = prompt;
    const node = this.#addresses.indexOf(member);
    this.#active[node] = (this.#active[node] ?? 0) + 1;
    const sentMs = this.#parts.clock.nowMs();
    let cachedInputTokens = 0;
    let queueMs: number | undefined = 0;
    const notes: NoteSink = { cached: (note) => this.#parts.judge.judge(prompt, this.#parts.number, note) };
    return {
      started: (cachedTokens) => {
        cachedInputTokens = cachedTokens ?? 0;
        queueMs = this.#parts.clock.nowMs() - sentMs;
        observer?.see([started({ inputTokens, ...(cachedTokens !== undefined && { cachedInputTokens }) })], notes);
      },
      progress: (prefilledTokens) => observer?.see([progress(prefilledTokens)]),
      firstToken: () => {
        this.#parts.judge.prefilled(prompt);
        observer?.see([delta(0, "a")]);
      },
      finished: (prefillMs, reported) => {
        if (reported) {
          queueMs = reported.queueMs;
          cachedInputTokens = reported.cachedTokens;
        }
        const queue = queueMs === undefined ? undefined : duration(queueMs);
        const timings = { queue, prefill: duration(prefillMs), decode: undefined };
        observer?.see([finished(undefined, { inputTokens, cachedInputTokens, outputTokens }, { timings })], notes);
        this.#active[node] = (this.#active[node] ?? 1) - 1;
        release();
      },
    };
  }

  #view(node: number): EndpointView {
    const address = addressOf(node);
    const active = () => this.#active[node] ?? 0;
    const report = () => this.#reports[node];
    const evictions = () => this.#evictions[node];
    const work = this.#work;
    const { ranks, slots, gateways } = this.#parts;
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
      get kvUse() {
        return report()?.kvUse ?? 0;
      },
      startedAtMs: 0,
      slots: slots === undefined ? ENOUGH_SLOTS : ranks * slots,
      keptConversations: slots === undefined ? 0 : ranks * slots,
      weight: 1,
      healthySinceMs: undefined,
      get outstandingPrefillTokens() {
        return Math.max(work.outstanding(address), report()?.queuedUncachedTokens ?? 0) / ranks;
      },
      gateways,
      get prefillTokensPerSecond() {
        return report()?.prefillTokensPerSecond ?? work.speed(address) ?? INITIAL_SPEED;
      },
      get decodeTokensPerSecond() {
        return report()?.decodeTokensPerSecond;
      },
      get retentionMs() {
        return report()?.retentionMs;
      },
      get evictedBeforeMs() {
        return evictions()?.usedBeforeMs;
      },
    };
  }
}

/** Returns the announced contents of the nodes' caches, `ranks` each, by the digests of the prompts. */
export function exactPrefixes(
  { held, isAnnounced }: AnnouncedCaches,
  { nodes, ranks }: { readonly nodes: number; readonly ranks: number },
  digests: ReadonlyMap<string, Digested>,
): AnnouncedPrefixes {
  const addresses = Array.from({ length: nodes }, (_, node) => addressOf(node));
  const heldIn = ({ tokens, piece, goesOn }: Digested, cache: number): Omit<AnnouncedPrefix, "address"> => {
    const behind = goesOn && cachedIn(held(), cache, goesOn.last);
    const hasTail = goesOn && behind && behind.tokens < goesOn.nextTokens;
    const tailTokens = hasTail ? Math.max(0, behind.tokens - tokens) : 0;
    const { lowerTokens } = tailTokens > 0 && behind ? behind : cachedIn(held(), cache, piece);
    return { tokens, tailTokens, lowerTokens };
  };
  return {
    holders(digest) {
      const digested = digests.get(digest);
      if (!digested || digested.piece < 0) return [];
      const { caches, lower } = held();
      const holders = caches.holders(digested.piece) | (lower?.holders(digested.piece) ?? 0);
      const found: AnnouncedPrefix[] = [];
      for (let node = 0; node < nodes && holders !== 0; node += 1) {
        let best: Omit<AnnouncedPrefix, "address"> | undefined;
        for (let cache = node * ranks; cache < (node + 1) * ranks; cache += 1) {
          if ((holders & (1 << cache)) === 0) continue;
          const part = heldIn(digested, cache);
          if (!best || part.tailTokens > best.tailTokens) best = part;
        }
        if (best && isAnnounced(node)) found.push({ address: addresses[node] ?? "", ...best });
      }
      return found;
    },
    fillOf(address) {
      const node = nodeOf(address);
      if (!isAnnounced(node)) return undefined;
      const { caches } = held();
      let usedTokens = 0;
      for (let cache = node * ranks; cache < (node + 1) * ranks; cache += 1) usedTokens += caches.tokens(cache);
      return { usedTokens, totalTokens: ranks * caches.capacity };
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
