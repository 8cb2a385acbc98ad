import type { PriorityClass } from "../../../deploy/runtime/queue/fair-queue.ts";

/** Routing inputs beside the request. None of them leaves the gateway. */
export type RoutingHints = {
  /** Returns a keyed digest from which its parts cannot be derived. */
  readonly digest: (...parts: readonly string[]) => string;
  /** The caller's headers, in which agents send their session ids. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The priority class of the request in the queue. */
  readonly priorityClass: PriorityClass;
  /** The weight of the request's tenant among waiting tenants of the same class; above 0. */
  readonly weight: number;
  /** The id of the API key whose pending requests are counted together; several keys may belong to one tenant. */
  readonly keyId: string;
  /** The most pending requests of the API key for the model; undefined for the cluster's limit per key. */
  readonly maxPendingRequests: number | undefined;
};
