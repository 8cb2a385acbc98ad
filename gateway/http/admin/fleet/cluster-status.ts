import type { ClusterManager } from "../../../upstream/cluster-manager.ts";

/** The state of an endpoint as one cluster sees it. Calls are those for the cluster's model. */
export type EndpointStatus = {
  /** Host and port. */
  readonly address: string;
  /** The reasons why the endpoint gets no requests, in Envoy's terms; empty for a healthy one. */
  readonly healthFlags: readonly string[];
  /** The reason why the newest health check failed; undefined when it passed. */
  readonly healthFailure: string | undefined;
  /** The number of open calls of this gateway on the endpoint. */
  readonly rqActive: number;
  /** The number of calls of this gateway to the endpoint so far. */
  readonly rqTotal: number;
  /** The number of calls of this gateway to the endpoint that failed. */
  readonly rqError: number;
  /** The number of calls of this gateway to the endpoint that continued the answer of another one. */
  readonly rqContinued: number;
  /** The endpoint's weight relative to the others. */
  readonly weight: number;
  /** The number of generations that the endpoint runs at once. */
  readonly slots: number;
  /** The number of generations of all gateways that run on the endpoint, as reported; 0 without a report. */
  readonly running: number;
  /** The number of generations of all gateways that wait on the endpoint, as reported; 0 without a report. */
  readonly waiting: number;
  /** The fraction of the endpoint's KV memory in use, from 0 to 1, as reported; 0 without a report. */
  readonly kvUse: number;
  /** The predicted prompt tokens sent by this gateway to the endpoint and not prefilled yet. */
  readonly outstandingPrefillTokens: number;
  /** The remaining time of the ejection in milliseconds; undefined when the endpoint is not ejected. */
  readonly ejectedForMs: number | undefined;
};

/** The state of a cluster and its endpoints at a moment. */
export type ClusterStatus = {
  /** The catalog id of the model that the cluster serves. */
  readonly model: string;
  readonly lbPolicy: string;
  readonly endpoints: readonly EndpointStatus[];
};

/** Returns all clusters as they are at `nowMs`, in monotonic milliseconds. */
export function clusterStatuses({ clusters }: ClusterManager, nowMs: number): readonly ClusterStatus[] {
  return clusters.map(({ model, settings, members, outliers }) => ({
    model,
    lbPolicy: settings.lbPolicy,
    endpoints: members.map((member): EndpointStatus => {
      const { address, calls } = member;
      return {
        address,
        healthFlags: member.healthFlags(nowMs),
        healthFailure: member.healthFailure,
        rqActive: calls.active,
        rqTotal: calls.total,
        rqError: calls.failed,
        rqContinued: calls.continued,
        weight: member.weight,
        slots: member.slots,
        running: member.running,
        waiting: member.waiting,
        kvUse: member.kvUse,
        outstandingPrefillTokens: Math.round(member.outstandingPrefillTokens),
        ejectedForMs: member.ejected ? Math.max(0, (outliers.ejectedUntilMs(address) ?? nowMs) - nowMs) : undefined,
      };
    }),
  }));
}
