import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../deploy/runtime/time/clock.ts";
import type { RunningTry } from "./call/attempt.ts";
import type { ClusterSettings } from "./cluster-settings.ts";
import type { EndpointSpec } from "./discovery/endpoint-schema.ts";
import type { Endpoint } from "./endpoint/endpoint.ts";
import { type EndpointLoad, UNKNOWN_LOAD } from "./endpoint/endpoint-load.ts";
import { PrefixWatch } from "./endpoint/prefix-watch.ts";
import { HealthChecker } from "./health/health-checker.ts";
import type { EndpointView } from "./load-balancing/endpoint-view.ts";
import type { Announcements } from "./load-balancing/prefix-index.ts";
import type { WorkLedger } from "./load-balancing/work-ledger.ts";
import type { OutlierDetector } from "./outlier/outlier-detector.ts";

/**
 * The prefill speed of a node that neither reports one nor was measured, in tokens per second: typical of one GPU with
 * a model of medium size.
 */
const DEFAULT_PREFILL_TOKENS_PER_SECOND = 5_000;

export type ClusterMemberOptions = {
  /** The endpoint, which other clusters may have as a member, too. */
  readonly endpoint: Endpoint;
  /** The endpoint as first discovered; `setSpec` applies changes. */
  readonly spec: EndpointSpec;
  readonly settings: ClusterSettings;
  /** The cluster's outlier detector, which may have ejected the endpoint. */
  readonly outliers: OutlierDetector;
  /** The prefill work on all endpoints, which the views show. */
  readonly work: WorkLedger;
  /** Stores the prefixes that the endpoint announces for the cluster's model. */
  readonly announcements: Announcements;
  /**
   * Whether the endpoint was present at the start of the cluster: its first healthy moment then begins no slow start.
   */
  readonly initial: boolean;
  /** The clock of the health checks. */
  readonly clock: Clock;
  /** Returns a random number uniform over [0, 1). */
  readonly random: () => number;
  /** Called when the member's health or compatibility changes, or is first determined. */
  readonly onChange: (member: ClusterMember) => void;
  /** Called with the view of the member at first, and after every change beyond its counts. */
  readonly onView: (view: EndpointView) => void;
};

/** This gateway's calls to a member of a cluster, for the cluster's model. */
export type CallCounts = {
  /** The running calls. */
  readonly active: number;
  /** The calls begun since the endpoint joined the cluster. */
  readonly total: number;
  /** The failed calls among `total`. */
  readonly failed: number;
  /** The calls among `total` that continued an answer begun on another endpoint. */
  readonly continued: number;
};

/** The view of a member: counts are read at their source, everything else is as of the last refresh. */
class MemberView implements EndpointView {
  readonly address: string;
  healthy = false;
  compatible = true;
  draining = false;
  ejected = false;
  slots = 1;
  weight = 1;
  healthySinceMs: number | undefined;
  load: EndpointLoad = UNKNOWN_LOAD;
  readonly #endpoint: Endpoint;
  readonly #work: WorkLedger;

  constructor(endpoint: Endpoint, work: WorkLedger) {
    this.address = endpoint.address;
    this.#endpoint = endpoint;
    this.#work = work;
  }

  get activeRequests(): number {
    return this.#endpoint.activeRequests;
  }

  get running(): number {
    return this.load.running;
  }

  get waiting(): number {
    return this.load.waiting;
  }

  get meanRequests(): number {
    return this.#endpoint.report.meanRequests;
  }

  get kvUse(): number {
    return this.load.kvUse;
  }

  get outstandingPrefillTokens(): number {
    return Math.max(this.#work.outstanding(this.address), this.load.queuedUncachedTokens);
  }

  get gateways(): number {
    return this.load.readers;
  }

  get prefillTokensPerSecond(): number {
    return this.load.prefillTokensPerSecond ?? this.#work.speed(this.address) ?? DEFAULT_PREFILL_TOKENS_PER_SECOND;
  }

  get decodeTokensPerSecond(): number | undefined {
    return this.load.decodeTokensPerSecond;
  }

  get retentionMs(): number | undefined {
    return this.load.retentionMs;
  }

  get evictedBeforeMs(): number | undefined {
    return this.load.evictedBeforeMs;
  }
}

/** An endpoint as a member of one cluster, with the health of the cluster's model on it. */
export class ClusterMember {
  /** The endpoint, whose calls and reports are those of all its models. */
  readonly endpoint: Endpoint;
  readonly #options: ClusterMemberOptions;
  readonly #checker: HealthChecker;
  readonly #prefixes: PrefixWatch | undefined;
  readonly #view: MemberView;
  readonly #stopListening: () => void;
  readonly #calls = { active: 0, total: 0, failed: 0, continued: 0 };
  /** The moment of the next refresh of the view by time alone. */
  #refreshAtMs = Number.POSITIVE_INFINITY;
  #cancelRefresh = () => {};
  #spec: EndpointSpec;
  #healthy = false;
  #mismatch = false;
  #judged = false;
  #healthySinceMs: number | undefined;
  #answers = false;
  #announcedMs: number;
  #hasBeenDown: boolean;

  constructor(options: ClusterMemberOptions) {
    const { endpoint, settings, announcements, clock, random } = options;
    this.endpoint = endpoint;
    if (settings.prefixEvents) {
      this.#prefixes = new PrefixWatch({ endpoint, model: settings.model, announcements, clock, random });
    }
    this.#options = options;
    this.#view = new MemberView(endpoint, options.work);
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
    this.#stopListening = endpoint.onNews(() => this.refresh());
    this.refresh();
    this.#checker.start();
  }

  /** The live view of the member: one object for the lifetime of the member. */
  get view(): EndpointView {
    return this.#view;
  }

  /** The endpoint as discovered. */
  get spec(): EndpointSpec {
    return this.#spec;
  }

  /** Applies the endpoint as discovered; an unchanged spec does nothing. */
  setSpec(spec: EndpointSpec): void {
    // Discovery repeats all members whenever one joins or leaves; unchanged ones need no refresh.
    if (isDeepStrictEqual(spec, this.#spec)) return;
    this.#spec = spec;
    this.refresh();
  }

  /** Returns whether the member may receive requests at the monotonic time `nowMs`. */
  isAvailable(nowMs: number): boolean {
    return this.healthFlags(nowMs).length === 0;
  }

  /**
   * Returns all reasons why the member receives no requests: Envoy's health flags and two additional ones; empty when
   * it is healthy.
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

  /** The failure of the newest health check, for operators; undefined when it passed, or none has ended yet. */
  get healthFailure(): string | undefined {
    return this.#mismatch ? "it does not have the model, or speaks another contract" : this.#checker.failure;
  }

  /**
   * Returns whether the node has announced that it drains or does not serve the model: a call that ends there is
   * expected.
   */
  isLeaving(nowMs: number): boolean {
    return this.#checker.refusing || this.#isDraining(nowMs);
  }

  /**
   * The monotonic milliseconds at which the member joined, or last resumed answering health checks: a node that does
   * not serve yet is likely to do so soon.
   */
  get announcedMs(): number {
    return this.#announcedMs;
  }

  /** Returns the member's health as Envoy prints it: `healthy`, or all flags joined. */
  healthText(nowMs: number): string {
    return this.healthFlags(nowMs).join("") || "healthy";
  }

  /** Returns the node's newest load report for the model; a stale report counts as none. */
  load(nowMs: number): EndpointLoad {
    return this.endpoint.report.load(this.#options.settings.model, nowMs);
  }

  /** The number of generations of the model that the node runs concurrently; at least 1. */
  get slots(): number {
    return Math.max(1, this.endpoint.description(this.#options.settings.model)?.maxConcurrentRequests ?? 1);
  }

  /**
   * Refreshes the view. Called when an ejection of the endpoint begins or is ended manually; the member detects every
   * other change.
   */
  refresh(): void {
    const { outliers, settings, clock, onView } = this.#options;
    const view = this.#view;
    const { address } = view;
    const nowMs = clock.nowMs();
    const ejectedUntilMs = outliers.ejectedUntilMs(address);
    view.healthy = this.#healthy && this.#spec.healthStatus !== "unhealthy";
    view.compatible = !this.#mismatch;
    view.draining = this.#isDraining(nowMs);
    view.ejected = outliers.isEjected(address, nowMs);
    view.slots = this.slots;
    view.weight = this.#spec.loadBalancingWeight;
    view.healthySinceMs = latest(this.#healthySinceMs, ejectedUntilMs);
    view.load = this.endpoint.report.load(settings.model, nowMs);
    this.#refreshBy(nowMs, [ejectedUntilMs, this.endpoint.report.freshUntilMs]);
    onView(view);
  }

  /** Stops the health checks; the endpoint stays open, as other clusters may have it. */
  close(): void {
    this.#checker.close();
    this.#prefixes?.stop();
    this.#stopListening();
    this.#cancelRefresh();
  }

  /** This gateway's calls to the endpoint for the cluster's model. */
  get calls(): CallCounts {
    return this.#calls;
  }

  /**
   * Counts one more running call here and on the endpoint until the result is ended. `continues`: the call continues an
   * answer begun on another endpoint.
   */
  beginCall(continues: boolean): RunningTry {
    const calls = this.#calls;
    const call = this.endpoint.beginCall();
    calls.active += 1;
    calls.total += 1;
    if (continues) calls.continued += 1;
    let open = true;
    return {
      end(outcome) {
        if (!open) return;
        open = false;
        calls.active -= 1;
        if (outcome === "failed") calls.failed += 1;
        call.end();
      },
    };
  }

  /** Schedules a refresh of the view at the first of these moments that is in the future. */
  #refreshBy(nowMs: number, moments: readonly (number | undefined)[]): void {
    const dueMs = Math.min(...moments.map((ms) => (ms === undefined || ms <= nowMs ? Number.POSITIVE_INFINITY : ms)));
    // An early refresh schedules the next one: reports postpone it twice a second.
    if (dueMs >= this.#refreshAtMs) return;
    this.#cancelRefresh();
    this.#refreshAtMs = dueMs;
    this.#cancelRefresh = this.#options.clock.after(dueMs - nowMs, () => {
      this.#refreshAtMs = Number.POSITIVE_INFINITY;
      this.refresh();
    });
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
    if (!changed) return;
    this.refresh();
    this.#options.onChange(this);
  }
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}
