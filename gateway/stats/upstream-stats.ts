import { Counter, Gauge, type Registry } from "prom-client";
import { type Detail, OUTCOMES, type OutcomeRow } from "../outcome.ts";
import { ContinuationStats } from "./continuation-stats.ts";

/** The role of a call to an endpoint for its request: the first one, a retry, or a continuation of its answer. */
export type CallKind = "first" | "retry" | "continuation";

/** Counts the requests of clusters, under Envoy's names: `upstream_rq_total` counts attempts, not requests. */
export class UpstreamStats {
  /** Counts the outcomes of answers whose engine is lost. */
  readonly continuations: ContinuationStats;
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
    this.continuations = new ContinuationStats(registry);
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

  /** Counts a request for which no endpoint was healthy. */
  noneHealthy(cluster: string): void {
    this.#noneHealthy.inc({ cluster });
  }
}
