import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { type Detail, OUTCOMES, type OutcomeRow } from "../outcome.ts";

/** The role of a call to an endpoint for its request: the first one, a retry, or a continuation of its answer. */
export type CallKind = "first" | "retry" | "continuation";

/**
 * The outcome of an answer whose engine was lost before its end: another one went on with it, or why none did.
 *
 * - `not_kept`: its engine cannot be continued, or there was no room to keep the answer.
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

/** Upper bounds of the time until another engine continued, in seconds: from a prefill to an outage. */
const SECONDS_TO_GO_ON: readonly number[] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160];

/** Counts the requests of clusters, under Envoy's names: `upstream_rq_total` counts attempts, not requests. */
export class UpstreamStats {
  /** Open calls, also for the charts of the admin page. */
  readonly active: Gauge<"cluster">;
  readonly #total: Counter<"cluster">;
  readonly #retry: Counter<"cluster">;
  readonly #retrySuccess: Counter<"cluster">;
  readonly #failed: Readonly<Record<NonNullable<OutcomeRow["tryStat"]>, Counter<"cluster">>>;
  readonly #noneHealthy: Counter<"cluster">;
  readonly #prefillOverdue: Counter<"cluster">;
  readonly #requestsOfDeath: Counter<"cluster">;
  readonly #ejections: Counter<"cluster" | "enforced">;
  readonly #continuation: Counter<"cluster">;
  readonly #continuationEnds: Counter<"cluster" | "outcome">;
  readonly #continuationGap: Histogram<"cluster">;
  readonly #notKept: Counter<"cluster" | "reason">;

  constructor(registry: Registry) {
    const options = (name: string, help: string) => ({
      name: `svc_cluster_upstream_${name}`,
      help,
      labelNames: ["cluster"] as const,
      registers: [registry],
    });
    this.#total = new Counter(options("rq_total", "Calls to endpoints of the cluster, retries included."));
    this.active = new Gauge(options("rq_active", "Open calls to endpoints of the cluster."));
    this.#retry = new Counter(options("rq_retry_total", "Calls to endpoints that retried a failed one."));
    this.#continuation = new Counter(
      options("rq_continuation_total", "Calls to endpoints that continued the answer of a lost one."),
    );
    this.#retrySuccess = new Counter(options("rq_retry_success_total", "Retries that were answered completely."));
    this.#failed = {
      timeout: new Counter(options("rq_timeout_total", "Calls that ended at the time limit of their request.")),
      per_try_timeout: new Counter(
        options(
          "rq_per_try_timeout_total",
          "Calls that ended at a time limit of one attempt: acceptance, first token, silence, or between tokens.",
        ),
      ),
      rx_reset: new Counter(options("rq_rx_reset_total", "Calls that were reset by the endpoint or its connection.")),
    };
    this.#noneHealthy = new Counter(
      options("cx_none_healthy_total", "Requests that found no healthy endpoint in the cluster."),
    );
    this.#prefillOverdue = new Counter(
      options("rq_prefill_overdue_total", "Requests that were served only after the longest wait for their prefill."),
    );
    this.#requestsOfDeath = new Counter({
      name: "svc_request_of_death_total",
      help: "Requests that were refused because similar ones made endpoints of the cluster fail.",
      labelNames: ["cluster"],
      registers: [registry],
    });
    this.#ejections = new Counter({
      name: "svc_cluster_outlier_ejections_total",
      help: "Outliers: endpoints with consecutive failed calls; enforced=false: not ejected, because too many already were.",
      labelNames: ["cluster", "type", "enforced"],
      registers: [registry],
    });
    this.#continuationEnds = new Counter({
      name: "svc_continuations_total",
      help: "Answers that lost their engine before their end, by outcome: went_on, or why no other engine continued them.",
      labelNames: ["cluster", "outcome"],
      registers: [registry],
    });
    this.#continuationGap = new Histogram({
      name: "svc_continuation_gap_seconds",
      help: "Time from the loss of an answer's engine to the first new event from another one, in seconds.",
      labelNames: ["cluster"],
      buckets: [...SECONDS_TO_GO_ON],
      registers: [registry],
    });
    this.#notKept = new Counter({
      name: "svc_answers_not_kept_total",
      help: "Answers not kept for continuation, or not any more, by reason: no_room, no_room_for_key, overload, released.",
      labelNames: ["cluster", "reason"],
      registers: [registry],
    });
  }

  /** Sets the counts of a cluster to 0, so that its first failure is an increase. */
  startAtZero(cluster: string): void {
    const counters = [this.#total, this.#retry, this.#retrySuccess, this.#noneHealthy, this.#prefillOverdue];
    const failed = Object.values(this.#failed);
    for (const counter of [...counters, ...failed, this.#requestsOfDeath, this.#continuation])
      counter.inc({ cluster }, 0);
    this.active.inc({ cluster }, 0);
  }

  begin(cluster: string, kind: CallKind): void {
    const labels = { cluster };
    this.#total.inc(labels);
    if (kind === "retry") this.#retry.inc(labels);
    if (kind === "continuation") this.#continuation.inc(labels);
    this.active.inc(labels);
  }

  /** Counts the end of a call: `cancelled` by this gateway, or failed with a detail token. */
  end(cluster: string, kind: CallKind, ending: "answered" | "cancelled" | Detail): void {
    const labels = { cluster };
    this.active.dec(labels);
    if (ending === "answered" && kind === "retry") this.#retrySuccess.inc(labels);
    if (ending === "answered" || ending === "cancelled") return;
    const { tryStat } = OUTCOMES[ending];
    if (tryStat) this.#failed[tryStat].inc(labels);
  }

  /** Counts an outlier; `enforced` is true if it was ejected. */
  ejected(cluster: string, enforced: boolean): void {
    this.#ejections.inc({ cluster, enforced: String(enforced) });
  }

  /** Counts a request that was refused because it kills endpoints. */
  requestDenied(cluster: string): void {
    this.#requestsOfDeath.inc({ cluster });
  }

  /** Counts a request that was admitted only after the longest wait for its prefill. */
  prefillOverdue(cluster: string): void {
    this.#prefillOverdue.inc({ cluster });
  }

  /** Counts an answer that another engine continued `gapMs` milliseconds after the loss. */
  wentOn(cluster: string, gapMs: number): void {
    this.#continuationEnds.inc({ cluster, outcome: "went_on" });
    this.#continuationGap.observe({ cluster }, gapMs / 1000);
  }

  /** Counts an answer that was not continued after the loss of its engine. */
  notContinued(cluster: string, outcome: ContinuationOutcome): void {
    this.#continuationEnds.inc({ cluster, outcome });
  }

  /** Counts an answer that is not kept, or not any more, so that no other engine could continue it. */
  notKept(cluster: string, reason: string): void {
    this.#notKept.inc({ cluster, reason });
  }

  /** Counts a request for which no endpoint was healthy. */
  noneHealthy(cluster: string): void {
    this.#noneHealthy.inc({ cluster });
  }
}
