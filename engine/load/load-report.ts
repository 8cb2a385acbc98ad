import type { Usage } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { BackendLoad } from "../backend.ts";
import type { Rates } from "./throughput.ts";

/** The change of KV usage that is reported at once, as a fraction of the capacity. */
const SHARP_KV_CHANGE = 0.1;

/** The change of queued prefill work that is reported at once, in seconds of work. */
const SHARP_PREFILL_SECONDS = 1;
/** The assumed prefill speed of a node that has not measured its own, in tokens per second. */
const UNKNOWN_PREFILL_SPEED = 5_000;

export type NodeLoad = {
  readonly load: BackendLoad;
  readonly rates: Rates;
  readonly draining: boolean;
  /** The number of open load report streams. Every gateway process has one. */
  readonly readers: number;
};

/**
 * Returns the load of a node as an ORCA report. `application_utilization` is the maximum of slots, KV cache and queue;
 * a queue as long as the number of slots counts as full. Unknown values are left out.
 */
export function loadReport({ load, rates, draining, readers }: NodeLoad): OrcaLoadReport {
  const { slots, busySlots, waiting, kvUse } = load;
  const named: Record<string, number | undefined> = {
    "svc.running": busySlots,
    "svc.waiting": waiting,
    "svc.queued_uncached_tokens": load.queuedUncachedTokens,
    "svc.kv_tokens_used": load.kvTokensUsed,
    "svc.kv_tokens_total": load.kvTokensTotal,
    "svc.prefill_tokens_per_second": rates.prefillTokensPerSecond,
    "svc.decode_tokens_per_second": rates.decodeTokensPerSecond,
    "svc.observed_retention_seconds": load.observedRetentionSeconds,
    "svc.draining": draining ? 1 : undefined,
    "svc.load_readers": readers,
  };
  const share = (count: number) => (slots > 0 ? count / slots : 0);
  return OrcaLoadReport.fromPartial({
    applicationUtilization: Math.max(share(busySlots), share(waiting), kvUse ?? 0),
    utilization: kvUse === undefined ? {} : { kv_cache: Math.min(1, kvUse) },
    namedMetrics: Object.fromEntries(
      Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    ),
    rpsFractional: rates.requestsPerSecond,
    eps: rates.errorsPerSecond,
  });
}

/** Returns the cost of a finished call as an ORCA report: uncached prompt tokens and output tokens. */
export function requestCost({ inputTokens, cachedInputTokens, outputTokens }: Usage): OrcaLoadReport {
  return OrcaLoadReport.fromPartial({
    requestCost: { "svc.uncached_input_tokens": inputTokens - cachedInputTokens, "svc.output_tokens": outputTokens },
  });
}

/** Returns whether `after` should be reported at once: by the queue, draining, KV usage or queued prefill work. */
export function changedSharply(before: OrcaLoadReport, after: OrcaLoadReport): boolean {
  const kv = (report: OrcaLoadReport) => report.utilization.kv_cache ?? 0;
  const same = (name: string) => before.namedMetrics[name] === after.namedMetrics[name];
  const unread = (report: OrcaLoadReport) => report.namedMetrics["svc.queued_uncached_tokens"] ?? 0;
  const speed = after.namedMetrics["svc.prefill_tokens_per_second"] ?? UNKNOWN_PREFILL_SPEED;
  return (
    Math.abs(kv(after) - kv(before)) > SHARP_KV_CHANGE ||
    Math.abs(unread(after) - unread(before)) > SHARP_PREFILL_SECONDS * speed ||
    !same("svc.waiting") ||
    !same("svc.draining")
  );
}
