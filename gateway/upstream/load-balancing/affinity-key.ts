/** The source that an affinity key was made from, for the log. */
export type AffinitySource = "cache_key" | "session" | "conversation";

/** A key that keeps requests together which an engine's cache helps. */
export type AffinityKey = {
  /** The source that the key was made from, for the log. */
  readonly source: AffinitySource;
  /**
   * A keyed digest that all gateways make alike for the same session of the same caller. It tells nothing about either.
   */
  readonly key: string;
};

/** What an affinity key can be made from. */
export type AffinityInput = {
  /** The request's `CacheHints.affinity_key`, which is a keyed digest already; empty where the caller gave none. */
  readonly cacheKey: string;
  /** The caller's headers as Node gives them: names are in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The tenant that the request belongs to. */
  readonly tenant: string;
  /** A digest of what stays the same through the conversation. */
  readonly conversationHead: string;
};

/**
 * The headers by which agents name their session. The first entry that a request has counts, and all headers of an
 * entry make the key. `x-client-request-id` is none of them: some clients send another one with every request.
 */
const SESSION_HEADERS: readonly (readonly string[])[] = [
  ["x-claude-code-session-id", "x-claude-code-agent-id"],
  ["x-session-affinity"],
  ["x-session-id"],
  ["session-id"],
  ["session_id"],
];

/**
 * Makes the key that keeps the turns of a session together: from the caller's cache key, else from the session that its
 * headers name, else from the conversation, which takes nothing from the client. `digest` makes a keyed digest of its
 * parts.
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
