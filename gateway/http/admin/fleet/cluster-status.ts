import type { ClusterManager } from "../../../upstream/cluster-manager.ts";

/** The state of an endpoint as one cluster sees it. Calls are those for the cluster's model. */
export type EndpointStatus = {
  /** The address of the endpoint, host and port. */
  readonly address: string;
  /** The reasons why the endpoint gets no requests, in Envoy's words; empty for a healthy one. */
  readonly healthFlags: readonly string[];
  /** The reason why the newest health check failed; undefined when it passed. */
  readonly healthFailure: string | undefined;
  /** The number of calls of this gateway that are open on the endpoint. */
  readonly rqActive: number;
  /** The number of calls of this gateway to the endpoint so far. */
  readonly rqTotal: number;
  /** The number of calls of this gateway to the endpoint that failed. */
  readonly rqError: number;
  /** The number of calls of this gateway to the endpoint that went on with the answer of another one. */
  readonly rqContinued: number;
  /** The share of requests that the endpoint is to get, relative to the others. */
  readonly weight: number;
  /** The number of generations that the endpoint runs at once. */
  readonly slots: number;
  /** The number of generations of all gateways that run on the endpoint, as reported; 0 without a report. */
  readonly running: number;
  /** The number of generations of all gateways that wait on the endpoint, as reported; 0 without a report. */
  readonly waiting: number;
  /** The fraction of the endpoint's KV memory in use, from 0 to 1, as reported; 0 without a report. */
  readonly kvUse: number;
  /** The prompt tokens that this gateway has sent to the endpoint and that are not prefilled yet, as predicted. */
  readonly outstandingPrefillTokens: number;
  /** The time for which the ejection of the endpoint still lasts, in milliseconds; undefined when it is not ejected. */
  readonly ejectedForMs: number | undefined;
};

/** The state of a cluster and its endpoints at a moment. */
export type ClusterStatus = {
  /** The catalog id of the model that the cluster serves. */
  readonly model: string;
  /** The load-balancing policy of the cluster. */
  readonly lbPolicy: string;
  /** The endpoints of the cluster. */
  readonly endpoints: readonly EndpointStatus[];
};

/** Returns all clusters as they are at `nowMs`, in monotonic milliseconds. */
export function clusterStatuses({ clusters }: ClusterManager, nowMs: number): readonly ClusterStatus[] {
  return clusters.map(({ model, settings, members, outliers }) => ({
    model,
    lbPolicy: settings.lbPolicy,
    endpoints: members.map((member): EndpointStatus => {
      const { view, calls } = member;
      const { address } = member.endpoint;
      return {
        address,
        healthFlags: member.healthFlags(nowMs),
        healthFailure: member.healthFailure,
        rqActive: calls.active,
        rqTotal: calls.total,
        rqError: calls.failed,
        rqContinued: calls.continued,
        weight: view.weight,
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
