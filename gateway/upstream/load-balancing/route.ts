import { affinityKey } from "./affinity-key.ts";
import { headOf, type PromptShape } from "./boundary-hashes.ts";
import type { RoutingHints } from "./routing-hints.ts";

/** What picks look at in a request, made once for all its tries. */
export type Route = {
  /** The digests and sizes of the prompt, by which prefixes are compared. */
  readonly shape: PromptShape;
  /** A digest of the caller, session or conversation that the request belongs to. */
  readonly affinityKey: string;
  /**
   * The time for which the prompt is to stay in an engine's cache, in milliseconds; undefined when the request does not
   * say.
   */
  readonly ttlMs: number | undefined;
};

/** What a route is made from beside hints. */
export type Routed = Omit<Route, "affinityKey"> & {
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** The digest of the caller's own cache key; empty where the caller gave none. */
  readonly cacheKey: string;
};

/** Makes the route of a request. */
export function routeOf({ shape, ttlMs, tenant, cacheKey }: Routed, { headers, digest }: RoutingHints): Route {
  const input = { cacheKey, headers, tenant, conversationHead: headOf(shape) };
  const { key } = affinityKey(input, digest);
  return { shape, affinityKey: key, ttlMs };
}
