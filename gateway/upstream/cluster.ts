import type { Logger } from "pino";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import { ClusterMember } from "./cluster-member.ts";
import type { ClusterConfig, ClusterSettings } from "./cluster-settings.ts";
import type { DescribedModel } from "./described-model.ts";
import type { Discovery, DiscoveryStatus } from "./discovery/discovery.ts";
import type { EndpointSpec } from "./discovery/endpoint-schema.ts";
import type { Resolve } from "./discovery/resolve.ts";
import { startDiscovery } from "./discovery/start-discovery.ts";
import type { Endpoint, EndpointTls } from "./endpoint/endpoint.ts";
import type { EndpointPool } from "./endpoint/endpoint-pool.ts";
import type { UpstreamTls } from "./endpoint/upstream-tls.ts";
import { EndpointFacts } from "./endpoint-facts.ts";
import { type EndpointView, isAvailable } from "./load-balancing/endpoint-view.ts";
import { EndpointViews } from "./load-balancing/endpoint-views.ts";
import { Announcements, PrefixIndex } from "./load-balancing/prefix-index.ts";
import type { WorkLedger } from "./load-balancing/work-ledger.ts";
import { OutlierDetector } from "./outlier/outlier-detector.ts";
import type { PromptBound } from "./prompt-bound.ts";

/** The parts of a cluster beside its settings: those that all clusters share, and its TLS. */
export type ClusterParts = {
  /** The endpoints of all clusters; each address is opened once. */
  readonly pool: EndpointPool;
  /** The TLS of connections to the cluster's endpoints; undefined for plain text. */
  readonly tls: UpstreamTls | undefined;
  /** The prefill work on all endpoints, which the views show. */
  readonly work: WorkLedger;
  /** The clock of discovery and of health checks. */
  readonly clock: Clock;
  /** Returns a random number uniform over [0, 1). */
  readonly random: () => number;
  /** Resolves host names for clusters with DNS discovery. */
  readonly resolve: Resolve;
  /** The log of discovery results and of every change of an endpoint's health. */
  readonly log: Logger;
};

/** The discovered endpoints of one model. */
export class Cluster {
  readonly settings: ClusterSettings;
  /** Judges the members by the ends of their calls. The owner reports every call's end, and every elapsed interval. */
  readonly outliers: OutlierDetector;
  /** Whether the cluster can ever have an endpoint; false for an empty static configuration. */
  readonly mayHaveEndpoints: boolean;
  /** The prefixes that the members announce. */
  readonly announcements = new Announcements();
  /** The prefixes on the members, announced and believed. */
  readonly prefixes = new PrefixIndex(this.announcements, {
    lifeOf: (address) => this.member(address)?.endpoint.startedAtMs,
    viewOf: (address) => this.views.get(address),
  });
  /** The members' views, kept up to date. */
  readonly views = new EndpointViews();
  readonly #parts: ClusterParts;
  readonly #tls: EndpointTls | undefined;
  readonly #discovery: Discovery;
  readonly #listeners = new Set<() => void>();
  readonly #healthListeners = new Set<() => void>();
  readonly #availabilityListeners = new Set<() => void>();
  #members = new Map<string, ClusterMember>();
  #memberList: readonly ClusterMember[] = [];
  #discovered = false;
  readonly #facts: EndpointFacts;

  constructor(config: ClusterConfig, parts: ClusterParts) {
    this.settings = config;
    this.outliers = new OutlierDetector(config.outlierDetection, (address) => this.member(address)?.refresh());
    this.mayHaveEndpoints = config.type !== "static" || config.endpoints.length > 0;
    this.#parts = parts;
    this.#facts = new EndpointFacts(config.model);
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
        if (fault === undefined) log.info({ cluster: config.model }, "discovery works again");
        else log.error({ cluster: config.model, fault }, "discovery failed; the last good endpoints stay");
      },
    });
  }

  /** The catalog id of the model. */
  get model(): string {
    return this.settings.model;
  }

  get members(): readonly ClusterMember[] {
    return this.#memberList;
  }

  /** Returns the member at an address; undefined where the cluster has none there. */
  member(address: string): ClusterMember | undefined {
    return this.#members.get(address);
  }

  /** The endpoints of the cluster, in any state. */
  get endpoints(): readonly Endpoint[] {
    return this.members.map(({ endpoint }) => endpoint);
  }

  /** The endpoints that may receive requests now. */
  get healthyEndpoints(): readonly Endpoint[] {
    return this.#facts.up;
  }

  /** The results of endpoint discovery so far. */
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

  /**
   * Calls the listener after an endpoint joined or left, became available or unavailable, or changed its description of
   * the model. Returns the function that ends this.
   */
  onAvailabilityChange(listener: () => void): () => void {
    this.#availabilityListeners.add(listener);
    return () => this.#availabilityListeners.delete(listener);
  }

  /**
   * The monotonic milliseconds at which an endpoint last joined, or resumed answering health checks; minus infinity
   * where the cluster has no endpoints.
   */
  get announcedMs(): number {
    return Math.max(...this.members.map(({ announcedMs }) => announcedMs));
  }

  /**
   * Returns the healthy endpoint with the fewest requests that is not in `tried`, the first of equals; undefined where
   * there is none.
   */
  pick(tried: ReadonlySet<Endpoint>): Endpoint | undefined {
    let best: Endpoint | undefined;
    for (const endpoint of this.healthyEndpoints) {
      if (tried.has(endpoint)) continue;
      if (!best || endpoint.activeRequests < best.activeRequests) best = endpoint;
    }
    return best;
  }

  /**
   * The properties of the model that hold on all available endpoints; the last ones while none is available, and
   * undefined until one has been.
   */
  get described(): DescribedModel | undefined {
    return this.#facts.described;
  }

  /** Whether some endpoint of the cluster takes images. */
  get acceptsImages(): boolean {
    return this.#facts.acceptsImages;
  }

  /** The prompt limits of the cluster's endpoints; empty where one of them does not report enough. */
  get promptBounds(): readonly PromptBound[] {
    return this.#facts.promptBounds;
  }

  /** Stops discovery and removes all members; an endpoint without another cluster closes with its last call. */
  close(): void {
    this.#discovery.close();
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
      known?.setSpec(spec);
      after.set(spec.address, known ?? this.#add(spec));
    }
    this.#members = after;
    this.#memberList = [...after.values()];
    const left = [...before.values()].filter(({ endpoint }) => !after.has(endpoint.address));
    for (const member of left) {
      this.#remove(member);
      this.views.delete(member.endpoint.address);
    }
    this.#discovered ||= specs.length > 0;
    const counts = { endpoints: specs.length, joined: after.size - (before.size - left.length), left: left.length };
    this.#parts.log.info({ cluster: this.model, ...counts }, "endpoints changed");
    for (const listener of this.#listeners) listener();
    if (left.length > 0) this.#availabilityChanged();
  }

  #add(spec: EndpointSpec): ClusterMember {
    const { pool, work, clock, random, log } = this.#parts;
    const { outliers, settings, announcements } = this;
    const endpoint = pool.join(spec.address, this.#tls);
    outliers.add(spec.address);
    const onChange = (member: ClusterMember) => {
      const health = member.healthText(clock.nowMs());
      const why = member.healthFailure;
      log.info({ endpoint: spec.address, model: settings.model, health, why }, "endpoint health changed");
      for (const listener of this.#healthListeners) listener();
    };
    const onView = (view: EndpointView) => {
      const changed = this.#facts.note(endpoint, isAvailable(view));
      this.views.set(view);
      if (changed) this.#availabilityChanged();
    };
    const initial = !this.#discovered;
    return new ClusterMember({
      endpoint,
      spec,
      settings,
      outliers,
      work,
      announcements,
      initial,
      clock,
      random,
      onChange,
      onView,
    });
  }

  #availabilityChanged(): void {
    for (const listener of this.#availabilityListeners) listener();
  }

  #remove(member: ClusterMember): void {
    member.close();
    this.outliers.forget(member.endpoint.address);
    this.#facts.forget(member.endpoint);
    this.#parts.pool.leave(member.endpoint);
  }
}

/**
 * Returns the host name of DNS discovery, for which certificates are issued, rather than for the addresses; undefined
 * for endpoints configured one by one.
 */
function dnsHost(config: ClusterConfig): string | undefined {
  return config.type === "strict_dns" ? config.address.slice(0, config.address.lastIndexOf(":")) : undefined;
}
