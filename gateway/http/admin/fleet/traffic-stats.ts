import { Counter, Gauge, type Registry } from "prom-client";
import { PRIORITY_CLASSES } from "../../../../deploy/runtime/queue/fair-queue.ts";
import type { CircuitBreakerState } from "../../../upstream/admission/slot-request.ts";
import type { ClusterTraffic } from "../../../upstream/cluster-traffic.ts";

/** The traffic of one cluster, as the statistics need it. */
export type TrafficView = {
  /** The cluster, whose model labels its series. */
  readonly cluster: Pick<ClusterTraffic["cluster"], "model">;
  /** The queue and the circuit breaker of the cluster. */
  readonly admission: Pick<ClusterTraffic["admission"], "pending" | "pendingOf" | "held" | "breakerState">;
  /** The number of running token counts. */
  readonly runningCounts: number;
  /** The retry budget of the cluster. */
  readonly budget: Pick<ClusterTraffic["budget"], "activeRetries" | "activeContinuations" | "overflows">;
};

/**
 * Registers queues, circuit breakers and retry budgets under Envoy's names, read at the moment of the scrape.
 */
export function registerTrafficStats(registry: Registry, traffic: readonly TrafficView[]): void {
  new Gauge({
    name: "svc_queue_depth",
    help: "Requests that wait for an endpoint of the model now, by class of service.",
    labelNames: ["model", "class"],
    registers: [registry],
    collect() {
      for (const { cluster, admission } of traffic)
        for (const name of PRIORITY_CLASSES) this.set({ model: cluster.model, class: name }, admission.pendingOf(name));
    },
  });
  registerRequests(registry, traffic);
  registerOverflows(registry, traffic);
  registerBreakers(registry, traffic);
}

function registerRequests(registry: Registry, traffic: readonly TrafficView[]): void {
  const gauge = (name: string, help: string, value: (view: TrafficView) => number) =>
    new Gauge({
      name: `svc_cluster_${name}`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        for (const view of traffic) this.set({ cluster: view.cluster.model }, value(view));
      },
    });
  gauge(
    "upstream_rq_pending_active",
    "Requests that wait for an endpoint of the cluster now, those included that are held while none is available.",
    ({ admission }) => admission.pending,
  );
  gauge(
    "upstream_rq_held",
    "Requests that are held now because no endpoint of the cluster is available; they count in upstream_rq_pending_active, too.",
    ({ admission }) => admission.held.requests,
  );
  gauge(
    "upstream_rq_held_bytes",
    "The size of the bodies of the requests that are held now because no endpoint of the cluster is available, in bytes.",
    ({ admission }) => admission.held.bytes,
  );
  gauge(
    "upstream_rq_count_active",
    "Token counts that endpoints of the cluster are asked for now.",
    ({ runningCounts }) => runningCounts,
  );
  gauge(
    "upstream_rq_retry_active",
    "Calls that repeat a failed one and are open now.",
    ({ budget }) => budget.activeRetries,
  );
  gauge(
    "upstream_rq_continuation_active",
    "Requests that have lost their engine and that no other one has taken up yet.",
    ({ budget }) => budget.activeContinuations,
  );
}

/** Registers the counters of overflows, which queues and budgets count themselves. */
function registerOverflows(registry: Registry, traffic: readonly TrafficView[]): void {
  const counter = (name: string, help: string, value: (view: TrafficView) => number) =>
    new Counter({
      name: `svc_cluster_${name}`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        this.reset();
        for (const view of traffic) this.inc({ cluster: view.cluster.model }, value(view));
      },
    });
  counter(
    "upstream_rq_pending_overflow_total",
    "Requests that found the cluster's queue full.",
    ({ admission }) => admission.breakerState().pendingOverflows,
  );
  counter(
    "upstream_rq_retry_overflow_total",
    "Repeated calls that the cluster's retry budget did not allow.",
    ({ budget }) => budget.overflows,
  );
}

function registerBreakers(registry: Registry, traffic: readonly TrafficView[]): void {
  const gauge = (
    name: string,
    help: string,
    value: (state: CircuitBreakerState) => { readonly rq: number; readonly rq_pending: number },
  ) =>
    new Gauge({
      name: `svc_cluster_circuit_breakers_${name}`,
      help,
      labelNames: ["cluster", "kind"],
      registers: [registry],
      collect() {
        for (const { cluster, admission } of traffic)
          for (const [kind, count] of Object.entries(value(admission.breakerState())))
            this.set({ cluster: cluster.model, kind }, count);
      },
    });
  gauge(
    "open",
    "1 while a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending); else 0.",
    ({ requestsOpen, pendingOpen }) => ({
      rq: Number(requestsOpen),
      rq_pending: Number(pendingOpen),
    }),
  );
  gauge(
    "remaining",
    "Requests until a limit of the circuit breaker is reached, by kind: requests that run (rq) or wait (rq_pending).",
    ({ remainingRequests, remainingPending }) => ({
      rq: remainingRequests,
      rq_pending: remainingPending,
    }),
  );
}
