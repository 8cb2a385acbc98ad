import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { ClusterSettings } from "./cluster-settings.ts";
import type { EndpointSpec } from "./discovery/endpoint-schema.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import type { EndpointLoad } from "./endpoint/endpoint-load.ts";
import { HealthChecker } from "./health/health-checker.ts";
import type { EndpointView } from "./load-balancing/endpoint-view.ts";
import type { WorkLedger } from "./load-balancing/work-ledger.ts";
import type { OutlierDetector } from "./outlier/outlier-detector.ts";
import { PrefixWatch } from "./prefixes/prefix-watch.ts";
import type { ToldPrefixes } from "./prefixes/told-prefixes.ts";

/**
 * The prefill speed of a node that neither reports one nor was measured, in tokens a second: what one GPU does with a
 * model of middle size.
 */
const DEFAULT_PREFILL_TOKENS_PER_SECOND = 5_000;

/** What a member of a cluster is made of. */
export type ClusterMemberOptions = {
  /** The endpoint, which other clusters may have as a member, too. */
  readonly endpoint: Endpoint;
  /** What discovery says about the endpoint at first; `setSpec` tells of changes. */
  readonly spec: EndpointSpec;
  /** The settings of the cluster. */
  readonly settings: ClusterSettings;
  /** The judge of the cluster's endpoints, which may have taken this one out. */
  readonly outliers: OutlierDetector;
  /** The prefill work on all endpoints, which the views for picks show. */
  readonly work: WorkLedger;
  /** Remembers what the endpoint tells of its cache, of the cluster's model. */
  readonly told: ToldPrefixes;
  /** Whether the endpoint was there when the cluster began: its first healthy moment then begins no slow start. */
  readonly initial: boolean;
  /** The clock of the health checks. */
  readonly clock: Clock;
  /** Returns a random number that is even over [0, 1). */
  readonly random: () => number;
  /** Called when the member's health or compatibility has changed, or is known for the first time. */
  readonly onChange: (member: ClusterMember) => void;
};

/** An endpoint as one cluster sees it: its place there, and the health of the cluster's model on it. */
export class ClusterMember {
  /** The endpoint that is the member, whose calls and reports are those of all its models. */
  readonly endpoint: Endpoint;
  readonly #options: ClusterMemberOptions;
  readonly #checker: HealthChecker;
  readonly #prefixes: PrefixWatch | undefined;
  #spec: EndpointSpec;
  #healthy = false;
  #mismatch = false;
  #judged = false;
  #healthySinceMs: number | undefined;
  #answers = false;
  #announcedMs: number;
  #hasBeenDown: boolean;

  constructor(options: ClusterMemberOptions) {
    const { endpoint, settings, told, clock, random } = options;
    this.endpoint = endpoint;
    if (settings.prefixEvents) {
      this.#prefixes = new PrefixWatch({ endpoint, model: settings.model, told, clock, random });
    }
    this.#options = options;
    this.#spec = options.spec;
    this.#hasBeenDown = !options.initial;
    this.#announcedMs = clock.nowMs();
    this.#checker = new HealthChecker({
      endpoint,
      model: settings.model,
      settings: settings.healthChecks,
      clock,
      random,
      onResult: () => this.#judge(),
    });
    this.#checker.start();
  }

  /** What discovery says about the endpoint. */
  get spec(): EndpointSpec {
    return this.#spec;
  }

  /** Takes what discovery now says about the endpoint. */
  setSpec(spec: EndpointSpec): void {
    this.#spec = spec;
  }

  /**
   * Returns whether the member may get requests at `nowMs`, in milliseconds of the monotonic clock; panic, in which no
   * health counts, is not looked at.
   */
  isAvailable(nowMs: number): boolean {
    return this.healthFlags(nowMs).length === 0;
  }

  /**
   * Returns all reasons why the member gets no requests, in Envoy's words and two of our own; empty when it is healthy.
   */
  healthFlags(nowMs: number): readonly string[] {
    const { endpoint, outliers } = this.#options;
    const flags: readonly (readonly [string, boolean])[] = [
      ["/failed_active_hc", !this.#healthy],
      ["/failed_outlier_check", outliers.isEjected(endpoint.address, nowMs)],
      ["/failed_eds_health", this.#spec.healthStatus === "unhealthy"],
      ["/draining", this.#isDraining(nowMs)],
      ["/version_mismatch", this.#mismatch],
    ];
    return flags.filter(([, set]) => set).map(([flag]) => flag);
  }

  /** The reason why the newest health check failed, for operators; undefined when it passed, or none is over yet. */
  get healthFailure(): string | undefined {
    return this.#mismatch ? "it does not have the model, or speaks another contract" : this.#checker.failure;
  }

  /**
   * Returns whether the node has said itself that it goes, or does not serve the model: a call that ends there is no
   * surprise.
   */
  isLeaving(nowMs: number): boolean {
    return this.#checker.refusing || this.#isDraining(nowMs);
  }

  /**
   * The moment at which the member joined, or last began to answer health checks after a time in which it did not, in
   * milliseconds of the monotonic clock: a node that does not serve yet is likely to do so soon.
   */
  get announcedMs(): number {
    return this.#announcedMs;
  }

  /** Returns the member's health as Envoy prints it: `healthy`, or all flags in a row. */
  healthText(nowMs: number): string {
    return this.healthFlags(nowMs).join("") || "healthy";
  }

  /** Returns what the node's newest report says about the model; a report that is too old says nothing. */
  load(nowMs: number): EndpointLoad {
    return this.endpoint.report.load(this.#options.settings.model, nowMs);
  }

  /** The number of generations of the model that the node runs at once; at least 1. */
  get slots(): number {
    return Math.max(1, this.endpoint.description(this.#options.settings.model)?.maxConcurrentRequests ?? 1);
  }

  /** Takes a snapshot of the member for one pick. */
  view(nowMs: number): EndpointView {
    const { outliers, work } = this.#options;
    const { address, activeRequests } = this.endpoint;
    const load = this.load(nowMs);
    const { priority, locality, loadBalancingWeight, healthStatus } = this.#spec;
    return {
      address,
      healthy: this.#healthy && healthStatus !== "unhealthy",
      compatible: !this.#mismatch,
      draining: this.#isDraining(nowMs),
      ejected: outliers.isEjected(address, nowMs),
      activeRequests,
      running: load.running,
      waiting: load.waiting,
      meanRequests: this.endpoint.report.meanRequests,
      kvUse: load.kvUse,
      slots: this.slots,
      weight: loadBalancingWeight,
      priority,
      locality,
      healthySinceMs: latest(this.#healthySinceMs, outliers.ejectedUntilMs(address)),
      outstandingPrefillTokens: Math.max(work.outstanding(address), load.queuedUncachedTokens),
      prefillTokensPerSecond: load.prefillTokensPerSecond ?? work.speed(address) ?? DEFAULT_PREFILL_TOKENS_PER_SECOND,
      decodeTokensPerSecond: load.decodeTokensPerSecond,
      retentionMs: load.retentionMs,
    };
  }

  /** Ends the health checks; the endpoint itself stays open, as other clusters may have it. */
  close(): void {
    this.#checker.close();
    this.#prefixes?.stop();
  }

  #isDraining(nowMs: number): boolean {
    return this.#spec.healthStatus === "draining" || this.endpoint.isDraining(nowMs);
  }

  #judge(): void {
    const { healthy, mismatch, answers } = this.#checker;
    if (answers && !this.#answers) this.#announcedMs = this.#options.clock.nowMs();
    this.#answers = answers;
    const changed = healthy !== this.#healthy || mismatch !== this.#mismatch || !this.#judged;
    this.#judged = true;
    if (healthy && !this.#healthy && this.#hasBeenDown) this.#healthySinceMs = this.#options.clock.nowMs();
    if (!healthy) this.#hasBeenDown = true;
    this.#healthy = healthy;
    this.#mismatch = mismatch;
    if (healthy && !mismatch) this.#prefixes?.follow();
    else this.#prefixes?.stop();
    if (changed) this.#options.onChange(this);
  }
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}
