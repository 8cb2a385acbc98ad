import type { Envelope } from "./errors.ts";
import { chat } from "./formats/chat/request.ts";
import { contractCount, contractGenerate } from "./formats/contract/request.ts";
import type { CountFormat, Format } from "./formats/format.ts";
import { countTokens } from "./formats/messages/count-tokens.ts";
import { messages } from "./formats/messages/request.ts";
import { inputTokens } from "./formats/responses/input-tokens.ts";
import { compaction, responses } from "./formats/responses/request.ts";
import type { Use } from "./limits/limiter.ts";

/*
 * The routes of the public API. Whatever depends on the route of a request reads the row here: which hooks it passes,
 * the envelope of its errors, its labels in log and statistics, what it costs its key, what is shed first under
 * pressure, which keys of its body may stand only once, and what a caller is told who asks for another path.
 */

type RouteFacts = {
  /**
   * The path as callers and statistics know it. A parameter stands in braces at the end, and takes everything behind
   * it.
   */
  readonly path: string;
  /** The methods that the route takes. A method that is not among them is answered with 405. */
  readonly methods: readonly ["POST"] | readonly ["GET", "HEAD"] | readonly ["HEAD"];
  /** The envelope of errors on this route. */
  readonly envelope: Envelope;
  /** The operation of the route, by which statistics tell it from others. */
  readonly operation: string;
  /** Whether the requests of the route leave no line in the log and count in no statistics. Default: they do. */
  readonly unrecorded?: true;
  /**
   * The keys of the body's top level that decide about the request, so that each may stand there only once. Default:
   * none.
   */
  readonly singleKeys?: readonly string[];
};

/**
 * A route that generates an answer. All of them have the same handler, which their `format` makes the difference of.
 */
export type GenerationRoute = RouteFacts & { readonly use: "generation"; readonly format: Format };

/** A route that counts the tokens of a prompt. All of them have the same handler, too. */
export type CountRoute = RouteFacts & { readonly use: "count"; readonly format: CountFormat };

/** A route that asks no engine. Its handler is found by its operation. */
export type OtherRoute = RouteFacts & {
  /** The use that a request makes of its key's limits; `open` means that the route asks for no key. */
  readonly use: Exclude<Use, "generation" | "count"> | "open";
  /** Never there: what such a route answers is of no format. */
  readonly format?: undefined;
};

/** One row of the table of routes. */
export type RouteSpec = GenerationRoute | CountRoute | OtherRoute;

const CONVERSATION_KEYS = ["model", "messages", "stream", "max_tokens"] as const;
const RESPONSE_KEYS = ["model", "input", "stream"] as const;

const TABLE = [
  {
    path: "/v1/chat/completions",
    methods: ["POST"],
    envelope: "a",
    operation: "chat",
    use: "generation",
    format: chat,
    singleKeys: CONVERSATION_KEYS,
  },
  {
    path: "/v1/messages",
    methods: ["POST"],
    envelope: "b",
    operation: "messages",
    use: "generation",
    format: messages,
    singleKeys: CONVERSATION_KEYS,
  },
  {
    path: "/v1/messages/count_tokens",
    methods: ["POST"],
    envelope: "b",
    operation: "count_tokens",
    use: "count",
    format: countTokens,
    singleKeys: CONVERSATION_KEYS,
  },
  {
    path: "/v1/responses",
    methods: ["POST"],
    envelope: "a",
    operation: "responses",
    use: "generation",
    format: responses,
    singleKeys: RESPONSE_KEYS,
  },
  {
    path: "/v1/responses/compact",
    methods: ["POST"],
    envelope: "a",
    operation: "compact",
    use: "generation",
    format: compaction,
    singleKeys: RESPONSE_KEYS,
  },
  {
    path: "/v1/responses/input_tokens",
    methods: ["POST"],
    envelope: "a",
    operation: "input_tokens",
    use: "count",
    format: inputTokens,
    singleKeys: RESPONSE_KEYS,
  },
  { path: "/v1/models", methods: ["GET", "HEAD"], envelope: "a", operation: "list_models", use: "none" },
  { path: "/v1/models/{model}", methods: ["GET", "HEAD"], envelope: "a", operation: "get_model", use: "none" },
  { path: "/openapi.json", methods: ["GET", "HEAD"], envelope: "a", operation: "get_contract", use: "none" },
  // Agents probe the base address without a key when they start.
  { path: "/", methods: ["HEAD"], envelope: "a", operation: "probe", use: "open", unrecorded: true },
  { path: "/api/hello", methods: ["HEAD"], envelope: "a", operation: "probe", use: "open" },
] as const satisfies readonly RouteSpec[];

/** The operations of all routes. */
export type Operation = (typeof TABLE)[number]["operation"];

/** The operations whose routes ask no engine: each needs a handler of its own. */
export type OtherOperation = Exclude<(typeof TABLE)[number], { readonly use: "generation" | "count" }>["operation"];

/** All routes of the public API. */
export const ROUTES: readonly (
  | ((GenerationRoute | CountRoute) & { readonly operation: Operation })
  | (OtherRoute & { readonly operation: OtherOperation })
)[] = TABLE;

/** A method of the contract that the gateway serves to gRPC clients. */
export type RpcSpec = {
  /** The path of the method, which is its full name behind a slash. */
  readonly path: string;
  /** The operation of the method, by which statistics tell it from others and from routes. */
  readonly operation: string;
} & (
  | { readonly use: "generation"; readonly format: typeof contractGenerate }
  | { readonly use: "count"; readonly format: typeof contractCount }
);

/** All methods of the contract that the gateway serves to gRPC clients. What is not here is for nodes alone. */
export const RPCS = {
  generate: {
    path: "/svc.inference.v1.InferenceService/Generate",
    operation: "rpc_generate",
    use: "generation",
    format: contractGenerate,
  },
  countTokens: {
    path: "/svc.inference.v1.InferenceService/CountTokens",
    operation: "rpc_count_tokens",
    use: "count",
    format: contractCount,
  },
} as const satisfies Readonly<Record<string, RpcSpec>>;

/** The routes and methods whose bodies are translated for engines, by operation. */
const PROMPTS: ReadonlyMap<string, GenerationRoute | CountRoute | RpcSpec> = new Map(
  [...ROUTES.filter((spec) => spec.use === "generation" || spec.use === "count"), ...Object.values(RPCS)].map(
    (spec) => [spec.operation, spec],
  ),
);

/** Returns the route or the method whose bodies are prompts, by its operation; undefined for any other operation. */
export function promptRoute(operation: string): GenerationRoute | CountRoute | RpcSpec | undefined {
  return PROMPTS.get(operation);
}

const PARAMETER = /\{\w+\}$/;

/**
 * Returns the path of a route as Fastify is told it: with a wildcard, as ids with a slash are one path segment to their
 * senders.
 */
export function urlPattern({ path }: RouteSpec): string {
  return path.replace(PARAMETER, "*");
}

/** Returns the route that `path` has among those which need a key, whatever the method; undefined where none has it. */
export function routeAt(path: string): RouteSpec | undefined {
  return ROUTES.find((spec) => spec.use !== "open" && isPathOf(path, spec));
}

/**
 * Returns the envelope of an error about `path`, which need not have a route: that of the nearest route above it, else
 * A.
 */
export function envelopeOf(path: string): Envelope {
  return ROUTES.find((spec) => path === spec.path || path.startsWith(`${spec.path}/`))?.envelope ?? "a";
}

/** The paths that a caller may have meant who asks for one that no route has. */
export const OFFERED_PATHS: readonly string[] = ROUTES.filter(
  ({ use, path }) => use !== "open" && !PARAMETER.test(path),
).map(({ path }) => path);

function isPathOf(path: string, spec: RouteSpec): boolean {
  const start = spec.path.replace(PARAMETER, "");
  return start === spec.path ? path === start : path.startsWith(start);
}
