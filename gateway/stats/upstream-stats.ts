import { type Detail, OUTCOMES } from "../outcome.ts";
import { GatewayMetrics } from "./metrics.ts";

export type CallKind = "first" | "retry" | "continuation";

/**
 * The outcome of an answer whose engine was lost before its end: another one went on with it, or why none did.
 *
 * - `not_kept`: its engine cannot be continued, or there was no capacity to keep the answer.
 * - `lost_too_often`: it lost several engines.
 * - `no_endpoint`: no endpoint that can continue it came in time.
 * - `other_answer`: the continuing engine sent another answer.
 * - `refused`: the continuing engine refused it.
 * - `suspected`: its request may have caused the loss of engines.
 */
export type ContinuationOutcome =
  | "went_on"
  | "not_kept"
  | "lost_too_often"
  | "no_endpoint"
  | "other_answer"
  | "refused"
  | "suspected";

/**
 * How the call ended that reads a prompt for another endpoint: with a hand-over (`lost`: the other could not take it),
 * without one, with an error, too late, or because its caller left.
 */
export type PrefillOutcome = "handed_over" | "lost" | "not_kept" | "failed" | "late" | "cancelled";

/** Counts the requests of clusters, under Envoy's names: `upstream_rq_total` counts attempts, not requests. */
export class UpstreamStats extends GatewayMetrics {
  /** Open calls, also for the admin page. */
  readonly active = this.metric("svc_cluster_upstream_rq_active");
  readonly noneHealthy = this.metric("svc_cluster_upstream_cx_none_healthy_total");
  readonly prefillOverdue = this.metric("svc_cluster_upstream_rq_prefill_overdue_total");
  readonly requestsOfDeath = this.metric("svc_request_of_death_total");
  readonly ejections = this.metric("svc_cluster_outlier_ejections_total");
  readonly #continuations = this.metric("svc_continuations_total");
  readonly promptBases = this.metric("svc_prompt_bases_total");
  readonly prefills = this.metric("svc_prefills_total");
  readonly notKept = this.metric("svc_answers_not_kept_total");
  readonly #continuationGap = this.metric("svc_continuation_gap_seconds");
  readonly #total = this.metric("svc_cluster_upstream_rq_total");
  readonly #retry = this.metric("svc_cluster_upstream_rq_retry_total");
  readonly #retrySuccess = this.metric("svc_cluster_upstream_rq_retry_success_total");
  readonly #continuation = this.metric("svc_cluster_upstream_rq_continuation_total");
  readonly #failed = {
    timeout: this.metric("svc_cluster_upstream_rq_timeout_total"),
    per_try_timeout: this.metric("svc_cluster_upstream_rq_per_try_timeout_total"),
    rx_reset: this.metric("svc_cluster_upstream_rq_rx_reset_total"),
  };

  /** Sets the counts of a cluster to 0, so that its first failure is an increase. */
  startAtZero(cluster: string): void {
    const counters = [this.#total, this.#retry, this.#retrySuccess, this.#continuation, ...Object.values(this.#failed)];
    for (const counter of [...counters, this.noneHealthy, this.prefillOverdue, this.requestsOfDeath])
      counter.inc({ cluster }, 0);
    this.active.inc({ cluster }, 0);
  }

  begin(cluster: string, kind: CallKind): void {
    this.#total.inc({ cluster });
    if (kind === "retry") this.#retry.inc({ cluster });
    if (kind === "continuation") this.#continuation.inc({ cluster });
    this.active.inc({ cluster });
  }

  /** Counts the end of a call: `cancelled` by this gateway, or failed with a detail token. */
  end(cluster: string, kind: CallKind, ending: "answered" | "cancelled" | Detail): void {
    this.active.dec({ cluster });
    if (ending === "answered" && kind === "retry") this.#retrySuccess.inc({ cluster });
    if (ending === "answered" || ending === "cancelled") return;
    const { attemptStat } = OUTCOMES[ending];
    if (attemptStat) this.#failed[attemptStat].inc({ cluster });
  }

  /** Counts an answer that lost its engine; `gapMs` is the time until another engine continued it, if one did. */
  continued(cluster: string, outcome: ContinuationOutcome, gapMs?: number): void {
    this.#continuations.inc({ cluster, outcome });
    if (gapMs !== undefined) this.#continuationGap.observe({ cluster }, gapMs / 1000);
  }
}
