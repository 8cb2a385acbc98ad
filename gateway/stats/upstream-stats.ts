import { type Detail, OUTCOMES } from "../outcome.ts";
import { MetricGroup } from "./metric-group.ts";

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

/** Upper bounds of the time until another engine continued, in seconds: from a prefill to an outage. */
const SECONDS_TO_GO_ON: readonly number[] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];

/** Counts the requests of clusters, under Envoy's names: `upstream_rq_total` counts attempts, not requests. */
export class UpstreamStats extends MetricGroup {
  /** Open calls, also for the admin page. */
  readonly active = this.gauge("svc_cluster_upstream_rq_active", "Open calls to endpoints of the cluster.", "cluster");
  readonly noneHealthy = this.#counter(
    "cx_none_healthy_total",
    "Requests that found no healthy endpoint in the cluster.",
  );
  readonly prefillOverdue = this.#counter(
    "rq_prefill_overdue_total",
    "Requests that were served only after the longest wait for their prefill.",
  );
  readonly requestsOfDeath = this.counter(
    "svc_request_of_death_total",
    "Requests that were refused because similar ones made endpoints of the cluster fail.",
    "cluster",
  );
  readonly ejections = this.counter(
    "svc_cluster_outlier_ejections_total",
    "Outliers: endpoints with consecutive failed calls; enforced=false: not ejected, because too many already were.",
    ...(["cluster", "type", "enforced"] as const),
  );
  readonly #continuations = this.counter(
    "svc_continuations_total",
    "Answers that lost their engine before their end, by outcome: went_on, or why no other engine continued them.",
    ...(["cluster", "outcome"] as const),
  );
  readonly promptBases = this.counter(
    "svc_prompt_bases_total",
    "Calls that left out messages the endpoint had, by base: found, or unknown, then sent whole.",
    ...(["cluster", "base"] as const),
  );
  readonly prefills = this.counter(
    "svc_prefills_total",
    "Prompts sent to a prefill node, by outcome: handed_over, or not: not_kept, failed, late, cancelled; and lost: handed over, and not taken.",
    ...(["cluster", "outcome"] as const),
  );
  readonly notKept = this.counter(
    "svc_answers_not_kept_total",
    "Answers not kept for continuation, or not any more, by reason: no_room, no_room_for_key, overload, released.",
    ...(["cluster", "reason"] as const),
  );
  readonly #continuationGap = this.histogram(
    "svc_continuation_gap_seconds",
    "Time from the loss of an answer's engine to the first new event from another one, in seconds.",
    SECONDS_TO_GO_ON,
    "cluster",
  );
  readonly #total = this.#counter("rq_total", "Calls to endpoints of the cluster, retries included.");
  readonly #retry = this.#counter("rq_retry_total", "Calls to endpoints that retried a failed one.");
  readonly #retrySuccess = this.#counter("rq_retry_success_total", "Retries that were answered completely.");
  readonly #continuation = this.#counter(
    "rq_continuation_total",
    "Calls to endpoints that continued the answer of a lost one.",
  );
  readonly #failed = {
    timeout: this.#counter("rq_timeout_total", "Calls that ended at the time limit of their request."),
    per_try_timeout: this.#counter(
      "rq_per_try_timeout_total",
      "Calls that ended at a time limit of one attempt: acceptance, first token, silence, or between tokens.",
    ),
    rx_reset: this.#counter("rq_rx_reset_total", "Calls that were reset by the endpoint or its connection."),
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

  #counter(name: string, help: string) {
    return this.counter(`svc_cluster_upstream_${name}`, help, "cluster");
  }
}
