import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { type Evictions, evictionsWith } from "./evictions.ts";
import { averageLoad, type LoadAverage } from "./load-average.ts";

/** The age, in milliseconds, at which a report expires. */
const EXPIRY_MS = 10_000;

/** A node's reported load; a figure is 0 or undefined where the node does not report it. */
export type EndpointLoad = {
  /** The number of running calls, of all gateways. */
  readonly running: number;
  /** The number of calls in the node's queue, of all gateways. */
  readonly waiting: number;
  /** The share of the KV cache that running calls hold, from 0 to 1. */
  readonly kvUse: number;
  /** The prompt tokens that have yet to be prefilled and are in no cache. */
  readonly queuedUncachedTokens: number;
  /** The prefill speed, in tokens per second. */
  readonly prefillTokensPerSecond: number | undefined;
  /** The decode speed of one generation, in tokens per second. */
  readonly decodeTokensPerSecond: number | undefined;
  /** The number of gateways that follow the load of the node, including this one. */
  readonly readers: number;
  /** The time for which the cache kept unused prefixes before it evicted them, in milliseconds. */
  readonly retentionMs: number | undefined;
  /**
   * The monotonic milliseconds of the last use of the prefixes evicted most recently: prefixes used later are still
   * cached.
   */
  readonly evictedBeforeMs: number | undefined;
};

/** The load of a node without a report. */
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

/** The newest ORCA report of a node, until it expires. */
export class LastReport {
  readonly #onChange: () => void;
  /** The report's load of each requested model: a report is read more often than one arrives. */
  readonly #loads = new Map<string, EndpointLoad>();
  /** The evictions of each of these models, over all reports. */
  readonly #evictions = new Map<string, Evictions | undefined>();
  #report: OrcaLoadReport | undefined;
  #atMs = 0;
  #average: LoadAverage | undefined;

  /** Starts without a report. `onChange` is called for every new report, and when the report is cleared. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  /** Takes a report that arrived at the monotonic time `nowMs`. */
  set(report: OrcaLoadReport, nowMs: number): void {
    this.#report = report;
    this.#loads.clear();
    this.#atMs = nowMs;
    const requests = metric(report, "svc.running") + metric(report, "svc.waiting");
    this.#average = averageLoad(this.#average, requests, nowMs);
    this.#onChange();
  }

  /** The mean number of running and waiting calls over the last minutes, of all models together; 0 without a report. */
  get meanRequests(): number {
    return this.#average?.value ?? 0;
  }

  /** Removes the report when the connection is lost: the next one may reach another node. */
  clear(): void {
    this.#report = undefined;
    this.#evictions.clear();
    this.#onChange();
  }

  /** Returns whether there is an unexpired report at the monotonic time `nowMs`. */
  isFresh(nowMs: number): boolean {
    return this.#report !== undefined && nowMs - this.#atMs < EXPIRY_MS;
  }

  /** The monotonic milliseconds at which the report expires; undefined where there is none. */
  get freshUntilMs(): number | undefined {
    return this.#report && this.#atMs + EXPIRY_MS;
  }

  /** Returns whether an unexpired report announces that the node drains. */
  isDraining(nowMs: number): boolean {
    return (this.#fresh(nowMs)?.namedMetrics["svc.draining"] ?? 0) > 0;
  }

  /** Returns the load of the model, where the node reports by model, else that of the node. */
  load(model: string, nowMs: number): EndpointLoad {
    const report = this.#fresh(nowMs);
    if (!report) return UNKNOWN_LOAD;
    const known = this.#loads.get(model);
    if (known) return known;
    const load = loadOf(report, model);
    const evictions = evictionsWith(this.#evictions.get(model), load.retentionMs, this.#atMs);
    this.#evictions.set(model, evictions);
    const withEvictions = { ...load, evictedBeforeMs: evictions?.usedBeforeMs };
    this.#loads.set(model, withEvictions);
    return withEvictions;
  }

  #fresh(nowMs: number): OrcaLoadReport | undefined {
    return this.isFresh(nowMs) ? this.#report : undefined;
  }
}

/** Returns a report's load of the model, where the node reports by model, else that of the node. */
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

/**
 * Returns a report's value of `name` for the model, else for the node. Without a model, and where the node has no
 * value, it is the sum over the node's models. 0 where none is reported.
 */
function metric({ namedMetrics }: OrcaLoadReport, name: string, model?: string): number {
  const said = amount(model && namedMetrics[`${name}/${model}`]) ?? amount(namedMetrics[name]);
  if (said !== undefined) return said;
  if (model) return 0;
  const ofModels = Object.entries(namedMetrics).filter(([key]) => key.startsWith(`${name}/`));
  return ofModels.reduce((sum, [, value]) => sum + (amount(value) ?? 0), 0);
}

/**
 * Returns a number that is safe for the arithmetic of the policies, which an invalid report must not reach; undefined
 * for any other value.
 */
function amount(value: number | string | undefined): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
