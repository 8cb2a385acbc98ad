import { Gauge, type Registry } from "prom-client";
import { PRIORITY_CLASSES, type PriorityClass } from "../../../upstream/queue/class-share.ts";

/** Requests that may yet run or wait, and whether none may. */
type BreakerState = {
  readonly remainingRequests: number;
  readonly remainingPending: number;
  readonly requestsOpen: boolean;
  readonly pendingOpen: boolean;
  readonly pendingOverflows: number;
};

/** What a cluster's traffic looks like at a moment. */
export type TrafficView = {
  readonly cluster: { readonly model: string };
  readonly admission: {
    /** Requests that wait for an endpoint. */
    readonly pending: number;
    /** Of those, the ones of one class. */
    pendingOf(priorityClass: PriorityClass): number;
    breakerState(): BreakerState;
  };
  readonly budget: { readonly activeRetries: number; readonly overflows: number };
};

/** Queues, circuit breakers and retry budgets as gauges under Envoy's names, read at the moment of the scrape. */
export function registerTrafficStats(registry: Registry, traffic: readonly TrafficView[]): void {
  const perCluster = (name: string, help: string, value: (view: TrafficView) => number) =>
    new Gauge({
      name: `svc_cluster_${name}`,
      help,
      labelNames: ["cluster"],
      registers: [registry],
      collect() {
        for (const view of traffic) this.set({ cluster: view.cluster.model }, value(view));
      },
    });
  new Gauge({
    name: "svc_queue_depth",
    help: "Requests that wait for an endpoint, by class of service.",
    labelNames: ["model", "class"],
    registers: [registry],
    collect() {
      for (const { cluster, admission } of traffic)
        for (const name of PRIORITY_CLASSES) this.set({ model: cluster.model, class: name }, admission.pendingOf(name));
    },
  });
  const perLimit = (
    name: string,
    help: string,
    value: (state: BreakerState) => { readonly rq: number; readonly rq_pending: number },
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
  perCluster("upstream_rq_pending_active", "Requests that wait for an endpoint.", ({ admission }) => admission.pending);
  perCluster("upstream_rq_pending_overflow", "Requests for which the queue was full.", ({ admission }) => {
    return admission.breakerState().pendingOverflows;
  });
  perCluster("upstream_rq_retry_active", "Retries that are under way.", ({ budget }) => budget.activeRetries);
  perCluster("upstream_rq_retry_overflow", "Retries beyond the budget.", ({ budget }) => budget.overflows);
  perLimit("open", "1 while the limit is reached.", ({ requestsOpen, pendingOpen }) => ({
    rq: Number(requestsOpen),
    rq_pending: Number(pendingOpen),
  }));
  perLimit("remaining", "Requests until the limit is reached.", ({ remainingRequests, remainingPending }) => ({
    rq: remainingRequests,
    rq_pending: remainingPending,
  }));
}
