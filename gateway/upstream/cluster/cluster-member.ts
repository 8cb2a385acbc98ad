import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { ModelDescription } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import type { Endpoint } from "../endpoint/endpoint.ts";
import { HealthChecker } from "../endpoint/health-checker.ts";
import { type EndpointLoad, UNKNOWN_LOAD } from "../endpoint/load-reports.ts";
import type { OutlierDetector } from "../endpoint/outlier-detector.ts";
import { PrefixWatch } from "../endpoint/prefix-watch.ts";
import { type EndpointView, isAvailable } from "../load-balancing/endpoint-view.ts";
import type { Announcements } from "../load-balancing/prefix-index.ts";
import type { WorkLedger } from "../load-balancing/work-ledger.ts";
import type { ClusterSettings } from "./cluster-settings.ts";

/** The prefill speed of a node without report or measurement: typical of one GPU with a model of medium size. */
const DEFAULT_PREFILL_TOKENS_PER_SECOND = 5_000;

export type ClusterMemberOptions = {
  /** The endpoint, which other clusters may have as a member, too. */
  readonly endpoint: Endpoint;
  readonly weight: number;
  readonly settings: ClusterSettings;
  /** The cluster's outlier detector, which may have ejected the endpoint. */
  readonly outliers: OutlierDetector;
  /** The prefill work on all endpoints. */
  readonly work: WorkLedger;
  /** Stores the prefixes that the endpoint announces for the cluster's model. */
  readonly announcements: Announcements;
  /** Whether the endpoint was there at the start of the cluster: then its first healthy moment begins no slow start. */
  readonly initial: boolean;
  readonly clock: Clock;
  readonly random: () => number;
  /** Called when the member's health or compatibility changes, or is first determined. */
  readonly onHealth: (member: ClusterMember) => void;
  /**
   * Called at first, and after every change beyond counts. `differs`: the member became available or unavailable, or
   * changed its description.
   */
  readonly onChange: (member: ClusterMember, differs: boolean) => void;
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

/**
 * An endpoint as a member of one cluster, with the health of the cluster's model on it, as picks see it: counts are read
 * at their source, everything else is as of the last refresh.
 */
export class ClusterMember implements EndpointView {
  readonly address: string;
  /** The endpoint, whose calls and reports are those of all its models. */
  readonly endpoint: Endpoint;
  healthy = false;
  compatible = true;
  draining = false;
  ejected = false;
  slots = 1;
  weight: number;
  healthySinceMs: number | undefined;
  running = 0;
  waiting = 0;
  kvUse = 0;
  gateways = 0;
  decodeTokensPerSecond: number | undefined;
  retentionMs: number | undefined;
  evictedBeforeMs: number | undefined;
  startedAtMs = 0;
  /** Whether the member may receive requests. */
  available = false;
  description: ModelDescription | undefined;
  readonly #options: ClusterMemberOptions;
  readonly #checker: HealthChecker;
  readonly #prefixes: PrefixWatch;
  readonly #stopListening: () => void;
  readonly #calls = { active: 0, total: 0, failed: 0, continued: 0 };
  #load: EndpointLoad = UNKNOWN_LOAD;
  /** The moment of the next refresh by time alone. */
  #refreshAtMs = Number.POSITIVE_INFINITY;
  #cancelRefresh = () => {};
  #judged = false;
  /** The monotonic milliseconds at which health checks last found the model healthy again. */
  #recoveredMs: number | undefined;
  #answers = false;
  #announcedMs: number;
  #hasBeenDown: boolean;
  /** Whether the node announced or was ordered to leave, and was not healthy since. */
  #isExpectedToLeave = false;

  constructor(options: ClusterMemberOptions) {
    const { endpoint, weight, settings, announcements, clock, random } = options;
    const { model } = settings;
    this.endpoint = endpoint;
    this.address = endpoint.address;
    this.weight = weight;
    this.#options = options;
    this.#prefixes = new PrefixWatch({ endpoint, model, announcements, clock, random });
    this.#hasBeenDown = !options.initial;
    this.#announcedMs = clock.nowMs();
    const onResult = () => this.#judge();
    this.#checker = new HealthChecker({ endpoint, model, settings: settings.healthChecks, clock, random, onResult });
    this.#stopListening = endpoint.onNews(() => this.refresh());
    this.refresh();
    this.#checker.start();
  }

  get activeRequests(): number {
    return this.endpoint.activeRequests;
  }

  get outstandingPrefillTokens(): number {
    const own = this.#options.work.outstanding(this.address);
    // The report is older, and counts nothing else where the gateway is alone.
    const tokens = this.gateways === 1 ? own : Math.max(own, this.#load.queuedUncachedTokens);
    return tokens / Math.max(1, this.description?.dataParallelRanks ?? 0);
  }

  get prefillTokensPerSecond(): number {
    const { work } = this.#options;
    return this.#load.prefillTokensPerSecond ?? work.speed(this.address) ?? DEFAULT_PREFILL_TOKENS_PER_SECOND;
  }

  get keptConversations(): number {
    return this.description?.keptConversations ?? 0;
  }

  /** Applies the weight as discovered. */
  setWeight(weight: number): void {
    if (weight === this.weight) return;
    this.weight = weight;
    this.refresh();
  }

  /** Returns all reasons why the member receives no requests: Envoy's health flags, and `/version_mismatch`. */
  healthFlags(nowMs: number): readonly string[] {
    const flags: readonly (readonly [string, boolean])[] = [
      ["/failed_active_hc", !this.healthy],
      ["/failed_outlier_check", this.#options.outliers.isEjected(this.address, nowMs)],
      ["/draining", this.endpoint.isDraining(nowMs)],
      ["/version_mismatch", !this.compatible],
    ];
    return flags.filter(([, set]) => set).map(([flag]) => flag);
  }

  /** Returns the member's health as Envoy prints it: `healthy`, or all flags joined. */
  healthText(nowMs: number): string {
    return this.healthFlags(nowMs).join("") || "healthy";
  }

  /** The failure of the newest health check, for operators; undefined when it passed, or none has ended yet. */
  get healthFailure(): string | undefined {
    return this.compatible ? this.#checker.failure : "it does not have the model, or speaks another contract";
  }

  /** Returns whether the node announced that it drains or does not serve the model: a call that ends there is expected. */
  isLeaving(nowMs: number): boolean {
    return this.#checker.refusing || this.endpoint.isDraining(nowMs);
  }

  /** Whether discovery may drop the member without a loss: as announced or ordered, or while it serves. */
  get leftAsAnnounced(): boolean {
    return this.#isExpectedToLeave || this.draining || (this.healthy && this.endpoint.connected);
  }

  /**
   * The monotonic milliseconds at which the member joined, or last resumed answering health checks: a node that does
   * not serve yet is likely to do so soon.
   */
  get announcedMs(): number {
    return this.#announcedMs;
  }

  /** This gateway's calls to the endpoint for the cluster's model. */
  get calls(): CallCounts {
    return this.#calls;
  }

  /**
   * Counts one more running call here and on the endpoint until `endCall`. `continues`: the call continues an answer
   * begun on another endpoint.
   */
  beginCall(continues: boolean): void {
    const calls = this.#calls;
    this.endpoint.activeRequests += 1;
    calls.active += 1;
    calls.total += 1;
    if (continues) calls.continued += 1;
  }

  /** Ends a call that `beginCall` counted; called once for each. */
  endCall(hasFailed: boolean): void {
    const calls = this.#calls;
    calls.active -= 1;
    if (hasFailed) calls.failed += 1;
    this.endpoint.callEnded();
  }

  /** Called when an ejection of the endpoint begins or is ended manually; the member detects every other change. */
  refresh(): void {
    const { outliers, settings, clock, onChange } = this.#options;
    const { address, endpoint } = this;
    const nowMs = clock.nowMs();
    const ejectedUntilMs = outliers.ejectedUntilMs(address);
    const { available, description } = this;
    this.description = endpoint.description(settings.model);
    this.draining = endpoint.isDraining(nowMs);
    if (this.draining) this.#isExpectedToLeave = true;
    this.ejected = outliers.isEjected(address, nowMs);
    this.slots = Math.max(1, this.description?.maxConcurrentRequests ?? 1);
    const recoveredMs = this.#recoveredMs;
    this.healthySinceMs =
      recoveredMs === undefined ? ejectedUntilMs : Math.max(recoveredMs, ejectedUntilMs ?? recoveredMs);
    const load = endpoint.report.load(settings.model, nowMs);
    this.#load = load;
    this.running = load.running;
    this.waiting = load.waiting;
    this.kvUse = load.kvUse;
    this.gateways = load.readers;
    this.decodeTokensPerSecond = load.decodeTokensPerSecond;
    this.retentionMs = load.retentionMs;
    this.evictedBeforeMs = load.evictedBeforeMs;
    this.startedAtMs = endpoint.startedAtMs;
    this.available = isAvailable(this);
    this.#refreshBy(nowMs, ejectedUntilMs, endpoint.report.freshUntilMs);
    onChange(this, available !== this.available || description !== this.description);
  }

  /** Stops the health checks; the endpoint stays open, as other clusters may have it. */
  close(): void {
    this.#checker.close();
    this.#prefixes.stop();
    this.#stopListening();
    this.#cancelRefresh();
  }

  /** Schedules a refresh at the first of these moments that is in the future. */
  #refreshBy(nowMs: number, ...moments: readonly (number | undefined)[]): void {
    let dueMs = Number.POSITIVE_INFINITY;
    for (const ms of moments) if (ms !== undefined && ms > nowMs && ms < dueMs) dueMs = ms;
    // An early refresh schedules the next one: reports postpone it twice a second.
    if (dueMs >= this.#refreshAtMs) return;
    this.#cancelRefresh();
    this.#refreshAtMs = dueMs;
    this.#cancelRefresh = this.#options.clock.after(dueMs - nowMs, () => {
      this.#refreshAtMs = Number.POSITIVE_INFINITY;
      this.refresh();
    });
  }

  #judge(): void {
    const { healthy, mismatch, answers } = this.#checker;
    const { clock, onHealth } = this.#options;
    if (answers && !this.#answers) this.#announcedMs = clock.nowMs();
    this.#answers = answers;
    const changed = healthy !== this.healthy || mismatch === this.compatible || !this.#judged;
    this.#judged = true;
    if (this.#checker.refusing) this.#isExpectedToLeave = true;
    else if (healthy && !this.draining) this.#isExpectedToLeave = false;
    if (healthy && !this.healthy && this.#hasBeenDown) this.#recoveredMs = clock.nowMs();
    if (!healthy) this.#hasBeenDown = true;
    this.healthy = healthy;
    this.compatible = !mismatch;
    if (healthy && !mismatch) this.#prefixes.follow();
    else this.#prefixes.stop();
    if (!changed) return;
    this.refresh();
    onHealth(this);
  }
}
