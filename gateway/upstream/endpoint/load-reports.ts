import { type Client, type ClientReadableStream, status } from "@grpc/grpc-js";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import { toDuration } from "../../../deploy/runtime/time/clock.ts";
import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { OpenRcaServiceService } from "../../../proto/gen/xds/service/orca/v3/orca.ts";

const EXPIRY_MS = 10_000;
/** The report interval of a node; it also reports large changes at once. */
const REPORT_INTERVAL_MS = 500;
/** The longest report interval: a report expires after twice as long. */
const MAX_REPORT_INTERVAL_MS = 5_000;
/** Each node's share of the interval: all together send at most 500 reports per second. */
const INTERVAL_MS_PER_NODE = 2;
const MIN_RECONNECT_MS = 250;
const MAX_RECONNECT_MS = 5_000;
/** The time after which a node without load reports is asked again: one with reports may have replaced it. */
const ASK_AGAIN_MS = 60_000;

/** A node's reported load; a figure is 0 or undefined where the node does not report it. */
export type EndpointLoad = {
  readonly running: number;
  readonly waiting: number;
  readonly kvUse: number;
  /** The prompt tokens that are yet to be prefilled and are in no cache. */
  readonly queuedUncachedTokens: number;
  readonly prefillTokensPerSecond: number | undefined;
  readonly decodeTokensPerSecond: number | undefined;
  /** The number of gateways that follow the node's load, including this one. */
  readonly readers: number;
  /** The time for which the cache kept unused prefixes before it evicted them. */
  readonly retentionMs: number | undefined;
  /** Monotonic milliseconds of the last use of the prefixes evicted most recently: later used ones are still cached. */
  readonly evictedBeforeMs: number | undefined;
};

export const UNKNOWN_LOAD: EndpointLoad = {
  running: 0,
  waiting: 0,
  kvUse: 0,
  queuedUncachedTokens: 0,
  prefillTokensPerSecond: undefined,
  decodeTokensPerSecond: undefined,
  readers: 0,
  retentionMs: undefined,
  evictedBeforeMs: undefined,
};

/** The evictions of an LRU cache: see `retentionMs` and `evictedBeforeMs` of `EndpointLoad`. */
export type Evictions = { readonly retentionMs: number; readonly usedBeforeMs: number };

/** Returns the evictions after a report; a node that repeats a retention has evicted nothing more. */
export function evictionsWith(
  before: Evictions | undefined,
  retentionMs: number | undefined,
  atMs: number,
): Evictions | undefined {
  if (retentionMs === undefined) return undefined;
  return before?.retentionMs === retentionMs ? before : { retentionMs, usedBeforeMs: atMs - retentionMs };
}

/** The newest ORCA report of a node, until it expires. */
export class LastReport {
  readonly #onChange: () => void;
  /** The report's load of each requested model: a report is read more often than one arrives. */
  readonly #loads = new Map<string, EndpointLoad>();
  /** The evictions of each of these models, over all reports. */
  readonly #evictions = new Map<string, Evictions | undefined>();
  #report: OrcaLoadReport | undefined;
  #atMs = 0;
  #drains = false;
  /** The monotonic milliseconds at which the report expires; undefined where there is none. */
  freshUntilMs: number | undefined;

  /** `onChange` is called for every new report, and when the report is cleared. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  set(report: OrcaLoadReport, nowMs: number): void {
    this.#report = report;
    this.#loads.clear();
    this.#atMs = nowMs;
    this.freshUntilMs = nowMs + EXPIRY_MS;
    this.#drains = (report.namedMetrics["svc.draining"] ?? 0) > 0;
    this.#onChange();
  }

  /** Removes the report when the connection is lost: the next one may reach another node. */
  clear(): void {
    this.#report = undefined;
    this.freshUntilMs = undefined;
    this.#evictions.clear();
    this.#onChange();
  }

  isFresh(nowMs: number): boolean {
    return this.freshUntilMs !== undefined && nowMs < this.freshUntilMs;
  }

  /** Returns whether an unexpired report announces that the node drains. */
  isDraining(nowMs: number): boolean {
    return this.#drains && this.isFresh(nowMs);
  }

  /** Returns the load of the model, where the node reports by model, else that of the node. */
  load(model: string, nowMs: number): EndpointLoad {
    const report = this.#report;
    if (!report || !this.isFresh(nowMs)) return UNKNOWN_LOAD;
    const known = this.#loads.get(model);
    if (known) return known;
    const load = loadOf(report, model);
    const evictions = evictionsWith(this.#evictions.get(model), load.retentionMs, this.#atMs);
    this.#evictions.set(model, evictions);
    const withEvictions = { ...load, evictedBeforeMs: evictions?.usedBeforeMs };
    this.#loads.set(model, withEvictions);
    return withEvictions;
  }
}

function loadOf(report: OrcaLoadReport, model: string): Omit<EndpointLoad, "evictedBeforeMs"> {
  const named = (name: string) => metric(report, name, model);
  const total = named("svc.kv_tokens_total");
  const kvUse = amount(report.utilization.kv_cache) ?? (total > 0 ? named("svc.kv_tokens_used") / total : 0);
  return {
    running: named("svc.running"),
    waiting: named("svc.waiting"),
    kvUse: Math.min(1, kvUse),
    queuedUncachedTokens: named("svc.queued_uncached_tokens"),
    prefillTokensPerSecond: named("svc.prefill_tokens_per_second") || undefined,
    decodeTokensPerSecond: named("svc.decode_tokens_per_second") || undefined,
    readers: named("svc.load_readers"),
    retentionMs: 1_000 * named("svc.observed_retention_seconds") || undefined,
  };
}

/** Returns a value of the model, else of the node; 0 without. */
function metric({ namedMetrics }: OrcaLoadReport, name: string, model: string): number {
  return amount(namedMetrics[`${name}/${model}`]) ?? amount(namedMetrics[name]) ?? 0;
}

/** Returns a finite number of at least 0; undefined for any other value, which must not reach the policies. */
function amount(value: number | string | undefined): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

export type LoadReportsOptions = {
  readonly endpoint: { readonly client: Client; readonly report: LastReport };
  readonly clock: Clock;
  readonly random: () => number;
  readonly nodes: () => number;
};

/** Follows a node's out-of-band ORCA reports; only the quality of picks depends on them. */
export class LoadReports {
  readonly #options: LoadReportsOptions;
  #call: ClientReadableStream<OrcaLoadReport> | undefined;
  #reconnectMs = MIN_RECONNECT_MS;
  #cancelTimer: () => void = () => {};
  #closed = false;

  constructor(options: LoadReportsOptions) {
    this.#options = options;
    this.#open();
  }

  /** Stops following; the newest report stays until it expires. */
  close(): void {
    this.#closed = true;
    this.#cancelTimer();
    this.#call?.cancel();
  }

  #open(): void {
    const { endpoint, clock, random, nodes } = this.#options;
    const { path, requestSerialize, responseDeserialize } = OpenRcaServiceService.streamCoreMetrics;
    const intervalMs = Math.min(MAX_REPORT_INTERVAL_MS, Math.max(REPORT_INTERVAL_MS, nodes() * INTERVAL_MS_PER_NODE));
    const request = { reportInterval: toDuration(intervalMs), requestCostNames: [] };
    const call = endpoint.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request);
    this.#call = call;
    call.on("data", (report: OrcaLoadReport) => {
      if (this.#closed) return;
      this.#reconnectMs = MIN_RECONNECT_MS;
      endpoint.report.set(report, clock.nowMs());
    });
    // Repeated by the status, which also reports a stream that the node ended normally.
    call.on("error", () => {});
    call.on("status", ({ code }) => {
      endpoint.report.clear();
      if (this.#closed) return;
      const waitMs = code === status.UNIMPLEMENTED ? ASK_AGAIN_MS : this.#reconnectMs;
      this.#reconnectMs = Math.min(MAX_RECONNECT_MS, 2 * this.#reconnectMs);
      this.#cancelTimer = clock.after(waitMs * (0.8 + 0.4 * random()), () => this.#open());
    });
  }
}
