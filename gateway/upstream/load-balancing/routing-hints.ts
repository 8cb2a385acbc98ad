import type { PriorityClass } from "../../../deploy/runtime/queue/class-share.ts";

/** What the routing of a request may look at beside the request itself. None of it leaves the gateway. */
export type RoutingHints = {
  /** Makes a keyed digest that tells nothing about its parts. */
  readonly digest: (...parts: readonly string[]) => string;
  /** The headers of the caller, in which agents name their sessions. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The class of service of the request while it waits. */
  readonly priorityClass: PriorityClass;
  /** The share that the request's tenant has among waiting tenants of the same class; above 0. */
  readonly weight: number;
  /** The id of the API key whose waiting requests are counted together; several keys may belong to one tenant. */
  readonly keyId: string;
  /**
   * The number of requests of the API key that may wait for the model; undefined for as many as the cluster lets every
   * key have.
   */
  readonly maxPendingRequests: number | undefined;
};
