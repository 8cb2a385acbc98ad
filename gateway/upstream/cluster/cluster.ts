import type { Logger } from "pino";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { Discovery, DiscoveryOptions, DiscoveryStatus, EndpointSpec, Resolve } from "../discovery/discovery.ts";
import { DnsDiscovery } from "../discovery/dns-discovery.ts";
import { FileDiscovery } from "../discovery/file-discovery.ts";
import type { Endpoint, EndpointTls } from "../endpoint/endpoint.ts";
import type { EndpointPool } from "../endpoint/endpoint-pool.ts";
import { OutlierDetector } from "../endpoint/outlier-detector.ts";
import type { UpstreamTls } from "../endpoint/upstream-tls.ts";
import { EndpointSet } from "../load-balancing/endpoint-set.ts";
import { Announcements, PrefixIndex } from "../load-balancing/prefix-index.ts";
import type { WorkLedger } from "../load-balancing/work-ledger.ts";
import type { PromptBound } from "../request/prompt-bound.ts";
import { ClusterMember } from "./cluster-member.ts";
import type { ClusterConfig, ClusterSettings } from "./cluster-settings.ts";
import { type ClusterSummary, type DescribedModel, describedModel, summaryOf } from "./described-model.ts";
import { RememberedMembers } from "./remembered-members.ts";

export type ClusterParts = {
  readonly pool: EndpointPool;
  readonly tls: UpstreamTls | undefined;
  readonly work: WorkLedger;
  readonly clock: Clock;
  readonly random: () => number;
  readonly resolve: Resolve;
  readonly log: Logger;
  /** Whether its endpoints only read prompts for those of another cluster of the model. Default: false. */
  readonly isPrefill?: boolean;
};

export class Cluster {
  readonly settings: ClusterSettings;
  /** Judges the members by the ends of their calls. The owner reports every call's end, and every elapsed interval. */
  readonly outliers: OutlierDetector;
  /** Whether the cluster can ever have an endpoint; false for an empty static configuration. */
  readonly mayHaveEndpoints: boolean;
  readonly announcements = new Announcements();
  readonly endpointSet: EndpointSet;
  readonly prefixes: PrefixIndex;
  readonly remembered: RememberedMembers;
  readonly #parts: ClusterParts;
  readonly #isDns: boolean;
  readonly #tls: EndpointTls | undefined;
  readonly #discovery: Discovery;
  readonly #listeners = new Set<() => void>();
  readonly #healthListeners = new Set<() => void>();
  readonly #availabilityListeners = new Set<() => void>();
  #members = new Map<string, ClusterMember>();
  #memberList: readonly ClusterMember[] = [];
  #discovered = false;
  /** Computed at the first read after a change, not for every request. */
  #summary: ClusterSummary | undefined;
  #lastDescribed: DescribedModel | undefined;

  constructor(config: ClusterConfig, parts: ClusterParts) {
    this.settings = config;
    this.remembered = new RememberedMembers(parts.clock);
    const { maxRequestsPerEndpoint } = config.circuitBreakers;
    this.endpointSet = new EndpointSet({ maxRequestsPerEndpoint, clock: parts.clock });
    this.prefixes = new PrefixIndex(this.announcements, this.endpointSet);
    this.outliers = new OutlierDetector(config.outlierDetection, (address) => this.member(address)?.refresh());
    this.mayHaveEndpoints = config.type !== "static" || config.endpoints.length > 0;
    this.#parts = parts;
    this.#isDns = config.type === "strict_dns";
    const { clock, random, resolve, log, tls } = parts;
    this.#tls = tls && {
      ...{ credentials: tls.credentials, pems: () => tls.pems },
      serverName: config.tls?.serverName ?? dnsHost(config),
    };
    this.#discovery = startDiscovery(config, {
      clock,
      random,
      resolve,
      onEndpoints: (endpoints) => this.#update(endpoints),
      onFault: (fault) => {
        if (fault === undefined) log.info({ cluster: this.name }, "discovery works again");
        else log.error({ cluster: this.name, fault }, "discovery failed; the last good endpoints stay");
      },
    });
  }

  get model(): string {
    return this.settings.model;
  }

  /** The model, or, of the prefill nodes of its cluster, `<model>/prefill`: a name in views and metrics. */
  get name(): string {
    return this.#parts.isPrefill ? `${this.model}/prefill` : this.model;
  }

  get members(): readonly ClusterMember[] {
    return this.#memberList;
  }

  member(address: string): ClusterMember | undefined {
    return this.#members.get(address);
  }

  get endpoints(): readonly Endpoint[] {
    return this.members.map(({ endpoint }) => endpoint);
  }

  get healthyEndpoints(): readonly Endpoint[] {
    return this.#summed.up;
  }

  get discovery(): DiscoveryStatus {
    return this.#discovery.status;
  }

  /** Calls the listener after endpoints joined, left or changed their weight. Returns the function that ends this. */
  onMembersChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls the listener after the health of an endpoint changed. Returns the function that ends this. */
  onHealthChange(listener: () => void): () => void {
    this.#healthListeners.add(listener);
    return () => this.#healthListeners.delete(listener);
  }

  /** The same after an endpoint joined or left, became available or not, or changed its description. */
  onAvailabilityChange(listener: () => void): () => void {
    this.#availabilityListeners.add(listener);
    return () => this.#availabilityListeners.delete(listener);
  }

  /** Monotonic milliseconds at which an endpoint last joined or answered checks again; -Infinity without any. */
  get announcedMs(): number {
    return Math.max(...this.members.map(({ announcedMs }) => announcedMs));
  }

  /** Returns the healthy endpoint with the fewest requests that is not in `tried`, the first of equals. */
  pick(tried: ReadonlySet<Endpoint>): Endpoint | undefined {
    let best: Endpoint | undefined;
    for (const endpoint of this.healthyEndpoints) {
      if (tried.has(endpoint)) continue;
      if (!best || endpoint.activeRequests < best.activeRequests) best = endpoint;
    }
    return best;
  }

  /** What all available endpoints have in common; the last known properties while none is available. */
  get described(): DescribedModel | undefined {
    return this.#summed.described ?? this.#lastDescribed;
  }

  get acceptsImages(): boolean {
    return this.#summed.acceptsImages;
  }

  get promptBounds(): readonly PromptBound[] {
    return this.#summed.promptBounds;
  }

  /** Stops discovery and removes all members; an endpoint without another cluster closes with its last call. */
  close(): void {
    this.#discovery.close();
    this.endpointSet.close();
    this.#listeners.clear();
    this.#healthListeners.clear();
    this.#availabilityListeners.clear();
    for (const member of this.#members.values()) this.#remove(member);
    this.#members = new Map();
    this.#memberList = [];
  }

  /** Applies the discovered endpoints. A member that stays keeps its state. */
  #update(specs: readonly EndpointSpec[]): void {
    const before = this.#members;
    const after = new Map<string, ClusterMember>();
    for (const spec of specs) {
      const known = before.get(spec.address);
      known?.setWeight(spec.loadBalancingWeight);
      after.set(spec.address, known ?? this.#add(spec));
    }
    this.#members = after;
    this.#memberList = [...after.values()];
    const left = [...before.values()].filter(({ endpoint }) => !after.has(endpoint.address));
    const joined = after.size - (before.size - left.length);
    // The lists of other kinds of discovery are an operator's own.
    const announced = this.#isDns ? left.filter((member) => member.leftAsAnnounced).length : left.length;
    this.remembered.changed(after.size, joined, announced);
    for (const member of left) {
      this.#remove(member);
      this.endpointSet.delete(member.address);
    }
    this.#summary = undefined;
    this.#discovered ||= specs.length > 0;
    const counts = { endpoints: specs.length, joined, left: left.length, lost: this.remembered.lost };
    this.#parts.log.info({ cluster: this.name, ...counts }, "endpoints changed");
    for (const listener of this.#listeners) listener();
    if (left.length > 0) this.#availabilityChanged();
  }

  #add(spec: EndpointSpec): ClusterMember {
    const { pool, work, clock, random, log } = this.#parts;
    const { outliers, settings, announcements } = this;
    const endpoint = pool.join(spec.address, this.#tls);
    outliers.add(spec.address);
    return new ClusterMember({
      ...{ endpoint, settings, outliers, work, announcements, clock, random },
      weight: spec.loadBalancingWeight,
      initial: !this.#discovered,
      onHealth: (member) => {
        const health = member.healthText(clock.nowMs());
        const why = member.healthFailure;
        log.info({ endpoint: spec.address, model: settings.model, health, why }, "endpoint health changed");
        for (const listener of this.#healthListeners) listener();
      },
      onChange: (member, differs) => {
        if (differs) this.#summary = undefined;
        // Kept even where no read happens before the endpoint becomes unavailable.
        if (differs && member.available && member.description)
          this.#lastDescribed ??= describedModel([member.description]);
        this.endpointSet.set(member);
        if (differs) this.#availabilityChanged();
      },
    });
  }

  get #summed(): ClusterSummary {
    if (this.#summary) return this.#summary;
    this.#summary = summaryOf(this.#memberList);
    this.#lastDescribed = this.#summary.described ?? this.#lastDescribed;
    return this.#summary;
  }

  #availabilityChanged(): void {
    for (const listener of this.#availabilityListeners) listener();
  }

  #remove(member: ClusterMember): void {
    member.close();
    this.outliers.forget(member.endpoint.address);
    this.#parts.pool.leave(member.endpoint);
  }
}

/** Starts the discovery of the configured type. Statically configured endpoints are reported before this returns. */
function startDiscovery(config: ClusterConfig, options: DiscoveryOptions): Discovery {
  switch (config.type) {
    case "static":
      options.onEndpoints(config.endpoints);
      return { status: { attempts: 1, successes: 1, failures: 0, rejected: 0, fault: undefined }, close() {} };
    case "strict_dns":
      return new DnsDiscovery(config, options);
    case "file":
      return new FileDiscovery(config.path, options);
    default:
      return config satisfies never;
  }
}

/** Returns the host name of DNS discovery: certificates are issued for it, rather than for the addresses. */
function dnsHost(config: ClusterConfig): string | undefined {
  return config.type === "strict_dns" ? config.address.slice(0, config.address.lastIndexOf(":")) : undefined;
}
