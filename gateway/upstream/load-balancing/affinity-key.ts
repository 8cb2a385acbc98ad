export type AffinitySource = "cache_key" | "session" | "conversation";

/** A key shared by requests that should reach the same endpoint's prefix cache. */
export type AffinityKey = {
  readonly source: AffinitySource;
  /** A keyed digest, equal on all gateways for the same session of the same caller. Neither can be derived from it. */
  readonly key: string;
};

export type AffinityInput = {
  /** The request's `CacheHints.affinity_key`, which is a keyed digest already; empty where the caller gave none. */
  readonly cacheKey: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly tenant: string;
  /** A digest of the part of the prompt that is constant through the conversation. */
  readonly conversationHead: string;
};

/**
 * The headers in which agents send their session id. The first entry present in a request is used, and all headers of
 * an entry make the key. `x-client-request-id` is absent: some clients change it with every request.
 */
const SESSION_HEADERS: readonly (readonly string[])[] = [
  ["x-claude-code-session-id", "x-claude-code-agent-id"],
  ["x-session-affinity"],
  ["x-session-id"],
  ["session-id"],
  ["session_id"],
];

/**
 * Returns the key shared by the turns of a session: from the caller's cache key, else from the session headers, else
 * from the head of the conversation. `digest` returns a keyed digest of its parts.
 */
export function affinityKey(input: AffinityInput, digest: (...parts: readonly string[]) => string): AffinityKey {
  const { tenant } = input;
  const named = namedSession(input.headers);
  if (input.cacheKey !== "") return { source: "cache_key", key: input.cacheKey };
  if (named) return { source: "session", key: digest(tenant, ...named.names, ...named.values) };
  return { source: "conversation", key: digest(tenant, "conversation", input.conversationHead) };
}

function namedSession(headers: AffinityInput["headers"]) {
  for (const names of SESSION_HEADERS) {
    const values = names.map((name) => firstValue(headers[name]));
    if (values[0]) return { names, values };
  }
  return undefined;
}

function firstValue(header: string | readonly string[] | undefined): string {
  return (typeof header === "string" ? header : (header?.[0] ?? "")).trim();
}
