import type { OrcaLoadReport } from "../../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import { averageLoad, type LoadAverage } from "./load-average.ts";

/** A report that is older says nothing any more. */
const EXPIRY_MS = 10_000;

/** What a node says about its load; 0 or absent where it says nothing. */
export type EndpointLoad = {
  readonly running: number;
  readonly waiting: number;
  /** Share of the KV cache that running calls hold; 0 to 1. */
  readonly kvUse: number;
  /** Prompt tokens that wait for their prefill and are in no cache. */
  readonly queuedUncachedTokens: number;
  readonly prefillTokensPerSecond: number | undefined;
  readonly decodeTokensPerSecond: number | undefined;
};

const UNKNOWN: EndpointLoad = {
  running: 0,
  waiting: 0,
  kvUse: 0,
  queuedUncachedTokens: 0,
  prefillTokensPerSecond: undefined,
  decodeTokensPerSecond: undefined,
};

/** The newest ORCA report of a node, as long as it is fresh. */
export class LastReport {
  #report: OrcaLoadReport | undefined;
  #atMs = 0;
  #average: LoadAverage | undefined;

  /** `nowMs`: monotonic, as everywhere here. */
  set(report: OrcaLoadReport, nowMs: number): void {
    this.#report = report;
    this.#atMs = nowMs;
    const requests = metric(report, "svc.running") + metric(report, "svc.waiting");
    this.#average = averageLoad(this.#average, requests, nowMs);
  }

  /** Running and waiting calls over the last minutes, of all models together; 0 where nothing was reported. */
  get meanRequests(): number {
    return this.#average?.value ?? 0;
  }

  /** The connection is gone: what comes next may be another node. */
  clear(): void {
    this.#report = undefined;
  }

  isFresh(nowMs: number): boolean {
    return this.#report !== undefined && nowMs - this.#atMs < EXPIRY_MS;
  }

  isDraining(nowMs: number): boolean {
    return (this.#fresh(nowMs)?.namedMetrics["svc.draining"] ?? 0) > 0;
  }

  /** What the node says for the model, where it tells its models apart, else for all of them together. */
  load(model: string, nowMs: number): EndpointLoad {
    const report = this.#fresh(nowMs);
    if (!report) return UNKNOWN;
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
    };
  }

  #fresh(nowMs: number): OrcaLoadReport | undefined {
    return this.isFresh(nowMs) ? this.#report : undefined;
  }
}

/** Of the model, else of the node; else of all its models together. 0 where nothing is said. */
function metric({ namedMetrics }: OrcaLoadReport, name: string, model?: string): number {
  const said = amount(model && namedMetrics[`${name}/${model}`]) ?? amount(namedMetrics[name]);
  if (said !== undefined) return said;
  const ofModels = Object.entries(namedMetrics).filter(([key]) => key.startsWith(`${name}/`));
  return model ? 0 : ofModels.reduce((sum, [, value]) => sum + (amount(value) ?? 0), 0);
}

/** A node's mistake must not reach the arithmetic of the policies. */
function amount(value: number | string | undefined): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
