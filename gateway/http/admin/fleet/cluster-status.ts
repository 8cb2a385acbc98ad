import type { ClusterManager } from "../../../upstream/cluster-manager.ts";

/** An endpoint as one cluster sees it. Calls are counted over all models that the endpoint serves. */
export type EndpointStatus = {
  readonly address: string;
  /** Why it gets no requests, in Envoy's words; empty: it is healthy. */
  readonly healthFlags: readonly string[];
  /** Why its newest health check failed; undefined when it passed. */
  readonly healthFailure: string | undefined;
  readonly rqActive: number;
  readonly rqTotal: number;
  readonly rqError: number;
  readonly weight: number;
  readonly priority: number;
  /** Empty where it was not given. */
  readonly zone: string;
  /** Generations that it runs at once. */
  readonly slots: number;
  /** Calls of all gateways that run there, as it reports; likewise the next ones, 0 where it reports nothing. */
  readonly running: number;
  readonly waiting: number;
  /** 0 to 1. */
  readonly kvUse: number;
  readonly outstandingPrefillTokens: number;
  /** How long its ejection lasts yet, in milliseconds; undefined: it is not ejected. */
  readonly ejectedForMs: number | undefined;
};

export type ClusterStatus = {
  readonly model: string;
  readonly lbPolicy: string;
  readonly endpoints: readonly EndpointStatus[];
};

/** All clusters as they are at `nowMs`, monotonic. */
export function clusterStatuses({ clusters }: ClusterManager, nowMs: number): readonly ClusterStatus[] {
  return clusters.map(({ model, settings, members, outliers }) => ({
    model,
    lbPolicy: settings.lbPolicy,
    endpoints: members.map((member): EndpointStatus => {
      const { address, totalRequests, failedRequests } = member.endpoint;
      const view = member.view(nowMs);
      return {
        address,
        healthFlags: member.healthFlags(nowMs),
        healthFailure: member.healthFailure,
        rqActive: view.activeRequests,
        rqTotal: totalRequests,
        rqError: failedRequests,
        weight: view.weight,
        priority: view.priority,
        zone: view.locality,
        slots: view.slots,
        running: view.running,
        waiting: view.waiting,
        kvUse: view.kvUse,
        outstandingPrefillTokens: Math.round(view.outstandingPrefillTokens),
        ejectedForMs: view.ejected ? Math.max(0, (outliers.ejectedUntilMs(address) ?? nowMs) - nowMs) : undefined,
      };
    }),
  }));
}
