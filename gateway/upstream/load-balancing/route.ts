import { affinityKey } from "./affinity-key.ts";
import { headOf, type PromptShape } from "./boundary-hashes.ts";
import type { RoutingHints } from "./routing-hints.ts";

/** The routing inputs of a request, computed once for all its attempts. */
export type Route = {
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /**
   * The time for which the prompt should stay in an engine's cache, in milliseconds; undefined when the request does
   * not set it.
   */
  readonly ttlMs: number | undefined;
};

/** The inputs of a route, beside hints. */
export type Routed = Omit<Route, "affinityKey"> & {
  readonly tenant: string;
  /** The digest of the caller's own cache key; empty where the caller gave none. */
  readonly cacheKey: string;
};

export function routeOf({ shape, ttlMs, tenant, cacheKey }: Routed, { headers, digest }: RoutingHints): Route {
  const input = { cacheKey, headers, tenant, conversationHead: headOf(shape) };
  const { key } = affinityKey(input, digest);
  return { shape, affinityKey: key, ttlMs };
}
