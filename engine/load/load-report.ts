import type { Usage } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { OrcaLoadReport } from "../../proto/gen/xds/data/orca/v3/orca_load_report.ts";
import type { BackendLoad } from "../backend.ts";
import type { Rates } from "./throughput.ts";

/** The trailer that carries the cost of one call, by the convention of ORCA (Open Request Cost Aggregation). */
export const LOAD_TRAILER = "endpoint-load-metrics-bin";

/** A change of the KV use that is told at once, as a share of the whole: ten points. */
const SHARP_KV_CHANGE = 0.1;

/** The change of what has yet to be prefilled that is told at once, as the seconds that it takes. */
const SHARP_PREFILL_SECONDS = 1;
/** The prefill speed of a node that has not measured its own, in tokens a second. */
const UNKNOWN_PREFILL_SPEED = 5_000;

/** The load of a node at one moment. */
export type NodeLoad = {
  /** The backend's load. */
  readonly load: BackendLoad;
  /** The recent speeds of the node. */
  readonly rates: Rates;
  /** Whether the node takes no new calls because it is leaving. */
  readonly draining: boolean;
  /** The number of streams of load reports that are open. Every process of a gateway has one. */
  readonly readers: number;
};

/**
 * Returns the load of a node as an ORCA report. `application_utilization` is the fullest of slots, KV memory and queue,
 * where a queue as long as there are slots counts as full. What the backend cannot tell is left out.
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
    namedMetrics: known(named),
    rpsFractional: rates.requestsPerSecond,
    eps: rates.errorsPerSecond,
  });
}

/**
 * Returns the cost of one finished call as an ORCA report: the prompt tokens that were not cached, and the output
 * tokens.
 */
export function requestCost({ inputTokens, cachedInputTokens, outputTokens }: Usage): OrcaLoadReport {
  return OrcaLoadReport.fromPartial({
    requestCost: { "svc.uncached_input_tokens": inputTokens - cachedInputTokens, "svc.output_tokens": outputTokens },
  });
}

/**
 * Returns whether a balancer should hear of `after` now rather than at the next interval: the queue or draining has
 * changed, the KV use by more than ten points, or what has yet to be prefilled by more than a second's work.
 */
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

function known(metrics: Readonly<Record<string, number | undefined>>): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [name, value] of Object.entries(metrics)) if (value !== undefined) found[name] = value;
  return found;
}
