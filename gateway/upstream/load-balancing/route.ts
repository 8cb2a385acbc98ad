import type { PriorityClass } from "../../../deploy/runtime/queue/fair-queue.ts";
import { headOf, type PromptShape } from "./boundary-hashes.ts";

/** Routing inputs beside the request. None of them leaves the gateway. */
export type RoutingHints = {
  /** Returns a keyed digest from which its parts cannot be derived. */
  readonly digest: (...parts: readonly string[]) => string;
  /** The caller's headers, in which agents send their session ids. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly priorityClass: PriorityClass;
  /** The weight of the request's tenant among waiting tenants of the same class; above 0. */
  readonly weight: number;
  /** The id of the API key whose pending requests are counted together; several keys may belong to one tenant. */
  readonly keyId: string;
  /** The most pending requests of the API key for the model; undefined for the cluster's limit per key. */
  readonly maxPendingRequests: number | undefined;
  /** Whether the first engine of the answer is to be lost, as a prober orders it. Default: false. */
  readonly losesEngine?: boolean;
};

/** The routing inputs of a request, computed once for all its attempts. */
export type Route = {
  readonly shape: PromptShape;
  /** A keyed digest of the caller, session or conversation: requests that share it should reach the same cache. */
  readonly affinityKey: string;
  /** The time for which the prompt should stay in an engine's cache; undefined when the request does not set it. */
  readonly ttlMs: number | undefined;
  /** Whether reasoning that the caller sent back is missing from the prompt. Default: false. */
  readonly lacksReasoning?: boolean | undefined;
  /** Whether the tools of the conversation that the prompt continues are missing from it. Default: false. */
  readonly lacksTools?: boolean | undefined;
};

export type Routed = Omit<Route, "affinityKey"> & {
  readonly tenant: string;
  /** The digest of the caller's own cache key; empty where the caller gave none. */
  readonly cacheKey: string;
};

/**
 * The headers in which agents send their session id. The first entry present in a request is used, and all headers of
 * an entry make the key. `x-client-request-id` is absent: some clients change it with every request.
 */
const SESSION_HEADERS: readonly (readonly [string, ...string[]])[] = [
  ["x-claude-code-session-id", "x-claude-code-agent-id"],
  ["x-session-affinity"],
  ["x-session-id"],
  // Codex: sub-agents have their parent's session, and a thread of their own.
  ["session-id", "thread-id"],
  ["session_id"],
];

export function routeOf({ shape, ttlMs, lacksReasoning, lacksTools, ...caller }: Routed, hints: RoutingHints): Route {
  const key = caller.cacheKey || affinityKey(shape, caller.tenant, hints);
  return { shape, affinityKey: key, ttlMs, lacksReasoning, lacksTools };
}

/** Returns the key of a request without a cache key: from the session headers, else from the conversation's first message. */
function affinityKey(shape: PromptShape, tenant: string, { headers, digest }: RoutingHints): string {
  for (const names of SESSION_HEADERS)
    if (firstValue(headers[names[0]]))
      return digest(tenant, ...names, ...names.map((name) => firstValue(headers[name])));
  return digest(tenant, "conversation", shape.opening ?? headOf(shape));
}

function firstValue(header: string | readonly string[] | undefined): string {
  return (typeof header === "string" ? header : (header?.[0] ?? "")).trim();
}
