/** Where an affinity key came from, for the log. */
export type AffinitySource = "cache_key" | "session" | "conversation";

export type AffinityKey = {
  readonly source: AffinitySource;
  /** A keyed digest: of the same caller's same session the same, on all gateways; tells nothing about it. */
  readonly key: string;
};

export type AffinityInput = {
  /** `CacheHints.affinity_key`, which is a keyed digest already; empty where the caller gave none. */
  readonly cacheKey: string;
  /** As Node gives them: names in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly tenant: string;
  /** Digest of what stays the same through the conversation. */
  readonly conversationHead: string;
};

/**
 * Headers by which agents name their session, first match wins; all of an entry make the key. `x-client-request-id` is
 * none of them: it is another one for every request of some clients.
 */
const SESSION_HEADERS: readonly (readonly string[])[] = [
  ["x-claude-code-session-id", "x-claude-code-agent-id"],
  ["x-session-affinity"],
  ["x-session-id"],
  ["session-id"],
  ["session_id"],
];

/** What keeps the turns of a session together, without anything from the client: key, else session, else conversation. */
export function affinityKey(input: AffinityInput, digest: (...parts: readonly string[]) => string): AffinityKey {
  if (input.cacheKey !== "") return { source: "cache_key", key: input.cacheKey };
  for (const names of SESSION_HEADERS) {
    const values = names.map((name) => firstValue(input.headers[name]));
    if (values[0]) return { source: "session", key: digest(input.tenant, ...names, ...values) };
  }
  return { source: "conversation", key: digest(input.tenant, "conversation", input.conversationHead) };
}

function firstValue(header: string | readonly string[] | undefined): string {
  return (typeof header === "string" ? header : (header?.[0] ?? "")).trim();
}
