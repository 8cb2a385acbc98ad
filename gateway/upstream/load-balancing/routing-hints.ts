import type { PriorityClass } from "../../../deploy/runtime/queue/class-share.ts";

/** What the routing of a request may look at beside the request itself. None of it leaves the gateway. */
export type RoutingHints = {
  /** At least 32 bytes, of their own for every tenant, isolation salt and model: prompts are compared by digests under it. */
  readonly prefixKey: Buffer;
  /** A keyed digest that tells nothing about its parts. */
  readonly digest: (...parts: readonly string[]) => string;
  /** Headers of the caller: agents name their sessions there. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly priorityClass: PriorityClass;
  /** Share among waiting tenants of the same class. */
  readonly weight: number;
  /** Whose requests are counted together where they wait; several keys may be one tenant. */
  readonly keyId: string;
  /** Requests of this key that may wait for the model; undefined: as many as the cluster lets every key have. */
  readonly maxPendingRequests: number | undefined;
};
