/**
 * What one pick sees of an endpoint: a snapshot, never changed by a policy. What a node reports about itself may be a
 * second old; what this gateway counts is exact.
 */
export type EndpointView = {
  readonly address: string;
  /** Active health of the model on the node. */
  readonly healthy: boolean;
  /** Whether the node speaks a contract version that this gateway knows. */
  readonly compatible: boolean;
  /** Takes no new calls; running ones go on. */
  readonly draining: boolean;
  /** Taken out by outlier detection. */
  readonly ejected: boolean;
  /** Calls of this gateway that run on it, queued ones included. */
  readonly activeRequests: number;
  /** Calls of all gateways that run on it, as reported; 0 where nothing is known. */
  readonly running: number;
  /** Calls in the node's own queue, as reported. */
  readonly waiting: number;
  /** Running and waiting calls over the last minutes, averaged from its reports; the same at all gateways, nearly. */
  readonly meanRequests: number;
  /** Share of the KV cache that running calls hold, as reported; 0 to 1. */
  readonly kvUse: number;
  /** Generations the node runs at once; at least 1. */
  readonly slots: number;
  /** Envoy's `load_balancing_weight`; above 0. */
  readonly weight: number;
  /** 0 is used first. */
  readonly priority: number;
  /** Zone or rack; empty where it was not given. */
  readonly locality: string;
  /** Monotonic milliseconds at which it last became available; undefined: it was so from the beginning. */
  readonly healthySinceMs: number | undefined;
  /** Prompt tokens it has yet to prefill: the own ledger or the node's report, whichever says more. */
  readonly outstandingPrefillTokens: number;
  /** How fast it prefills; above 0. */
  readonly prefillTokensPerSecond: number;
};

/** Number of requests on an endpoint, waiting ones included: the report knows other gateways', the own count is newer. */
export function requestsOn({ activeRequests, running, waiting }: EndpointView): number {
  return Math.max(activeRequests, running + waiting);
}

/** Whether an endpoint may get requests, panic aside. */
export function isAvailable(endpoint: EndpointView): boolean {
  return endpoint.healthy && !endpoint.ejected && canServe(endpoint);
}

/** Whether sending to an endpoint makes any sense: not even panic sends to one that would refuse every call. */
export function canServe({ compatible, draining }: EndpointView): boolean {
  return compatible && !draining;
}
