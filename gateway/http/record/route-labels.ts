/** What log and stats call a route. */
export type RouteLabels = {
  /** The pattern of its path, never the path itself. */
  readonly route: string;
  readonly format: "chat" | "messages" | "responses" | "none";
  /** What is done: the `gen_ai.operation.name` of its stats. */
  readonly operation: string;
};

const ROUTES: Readonly<Record<string, RouteLabels>> = {
  "/v1/chat/completions": { route: "/v1/chat/completions", format: "chat", operation: "chat" },
  "/v1/messages": { route: "/v1/messages", format: "messages", operation: "messages" },
  "/v1/messages/count_tokens": { route: "/v1/messages/count_tokens", format: "messages", operation: "count_tokens" },
  "/v1/responses": { route: "/v1/responses", format: "responses", operation: "responses" },
  "/v1/models": { route: "/v1/models", format: "none", operation: "list_models" },
  "/v1/models/*": { route: "/v1/models/{model}", format: "none", operation: "get_model" },
};

const UNKNOWN: RouteLabels = { route: "unknown", format: "none", operation: "none" };

/** `pattern`: the route as Fastify was told it; undefined where none matched. */
export function routeLabels(pattern: string | undefined): RouteLabels {
  return (pattern !== undefined && Object.hasOwn(ROUTES, pattern) && ROUTES[pattern]) || UNKNOWN;
}
