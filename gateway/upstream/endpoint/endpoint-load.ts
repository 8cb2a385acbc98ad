import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { type Evictions, evictionsWith } from "./evictions.ts";
import { averageLoad, type LoadAverage } from "./load-average.ts";

/** The age, in milliseconds, from which a report says nothing any more. */
const EXPIRY_MS = 10_000;

/** What a node says about its load; a figure is 0 or undefined where the node says nothing. */
export type EndpointLoad = {
  /** The number of calls that run, of all gateways. */
  readonly running: number;
  /** The number of calls that wait in the queue of the node, of all gateways. */
  readonly waiting: number;
  /** The share of the KV cache that running calls hold, from 0 to 1. */
  readonly kvUse: number;
  /** The prompt tokens that have yet to be prefilled and are in no cache. */
  readonly queuedUncachedTokens: number;
  /** The prompt tokens that the node reads in a second. */
  readonly prefillTokensPerSecond: number | undefined;
  /** The tokens that one generation gets in a second. */
  readonly decodeTokensPerSecond: number | undefined;
  /** The number of gateways that follow the load of the node, this one among them. */
  readonly readers: number;
  /** The time for which the cache has kept unused prefixes before it evicted them, in milliseconds. */
  readonly retentionMs: number | undefined;
  /** The monotonic milliseconds at which what the cache has evicted was used last: what was used since is still there. */
  readonly evictedBeforeMs: number | undefined;
};

/** What is known of a node that has not reported. */
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

/** The newest ORCA report of a node, as long as it is fresh. */
export class LastReport {
  readonly #onChange: () => void;
  /** What the report says of each model that was asked for: a report is read more often than one comes. */
  readonly #loads = new Map<string, EndpointLoad>();
  /** What is known of the evictions of each of these models, over all reports. */
  readonly #evictions = new Map<string, Evictions | undefined>();
  #report: OrcaLoadReport | undefined;
  #atMs = 0;
  #average: LoadAverage | undefined;

  /** Starts without a report. `onChange` is called whenever there is a new one, or none any more. */
  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange;
  }

  /** Takes a report that came at `nowMs`, in milliseconds of the monotonic clock. */
  set(report: OrcaLoadReport, nowMs: number): void {
    this.#report = report;
    this.#loads.clear();
    this.#atMs = nowMs;
    const requests = metric(report, "svc.running") + metric(report, "svc.waiting");
    this.#average = averageLoad(this.#average, requests, nowMs);
    this.#onChange();
  }

  /**
   * The mean number of running and waiting calls over the last minutes, of all models together; 0 where nothing was
   * reported.
   */
  get meanRequests(): number {
    return this.#average?.value ?? 0;
  }

  /** Forgets the report, as the connection is gone: behind the next one may be another node. */
  clear(): void {
    this.#report = undefined;
    this.#evictions.clear();
    this.#onChange();
  }

  /** Returns whether there is a report that is not too old at `nowMs`, in milliseconds of the monotonic clock. */
  isFresh(nowMs: number): boolean {
    return this.#report !== undefined && nowMs - this.#atMs < EXPIRY_MS;
  }

  /**
   * The moment at which the report will be too old, in milliseconds of the monotonic clock; undefined where there is
   * none.
   */
  get freshUntilMs(): number | undefined {
    return this.#report && this.#atMs + EXPIRY_MS;
  }

  /** Returns whether a fresh report says that the node drains. */
  isDraining(nowMs: number): boolean {
    return (this.#fresh(nowMs)?.namedMetrics["svc.draining"] ?? 0) > 0;
  }

  /** Returns what the node says for the model, where it tells its models apart, else for all of them together. */
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

/** Returns what a report says for the model, where the node tells its models apart, else for all of them together. */
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
 * Returns what a report says under `name` for the model, else for the node. Without a model, and where the node says
 * nothing, it is the sum over the models of the node. 0 where nothing is said.
 */
function metric({ namedMetrics }: OrcaLoadReport, name: string, model?: string): number {
  const said = amount(model && namedMetrics[`${name}/${model}`]) ?? amount(namedMetrics[name]);
  if (said !== undefined) return said;
  if (model) return 0;
  const ofModels = Object.entries(namedMetrics).filter(([key]) => key.startsWith(`${name}/`));
  return ofModels.reduce((sum, [, value]) => sum + (amount(value) ?? 0), 0);
}

/**
 * Returns a number that is safe for the arithmetic of the policies, which a mistake of a node must not reach; undefined
 * for any other value.
 */
function amount(value: number | string | undefined): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
