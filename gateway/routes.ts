import type { Envelope } from "./errors.ts";
import { chat } from "./formats/chat/request.ts";
import { contractCount, contractGenerate } from "./formats/contract/request.ts";
import type { CountFormat, Format } from "./formats/format.ts";
import { countTokens, messages } from "./formats/messages/request.ts";
import { responseFrames } from "./formats/responses/frames.ts";
import { compaction, inputTokens, responses } from "./formats/responses/request.ts";
import type { Use } from "./limits/limiter.ts";

/*
 * The routes of the public API. Each row decides everything that depends on the route of a request: its hooks, the
 * envelope of its errors, its labels in log and statistics, its cost for the key, its order of load shedding, body keys
 * that must be unique, and the paths that a 404 suggests.
 */

type RouteFacts = {
  /** Path for callers and statistics. A parameter is at the end, in braces, and matches the rest of the path. */
  readonly path: string;
  /** Accepted methods. Any other method is answered with 405. */
  readonly methods: readonly ["POST"] | readonly ["GET", "HEAD"] | readonly ["HEAD"];
  readonly envelope: Envelope;
  readonly operation: string;
  /** Whether requests of the route are neither logged nor counted. Default: they are. */
  readonly unrecorded?: true;
  /** Top-level keys of the body that decide about the request, so that each must be unique. Default: none. */
  readonly singleKeys?: readonly string[];
};

/** A route that generates an answer. All have the same handler and differ by `format`. */
export type GenerationRoute = RouteFacts & { readonly use: "generation"; readonly format: Format };

/** A route that counts the tokens of a prompt. All have the same handler. */
export type CountRoute = RouteFacts & { readonly use: "count"; readonly format: CountFormat };

/** A route that calls no engine. Its handler is found by its operation. */
export type OtherRoute = RouteFacts & {
  /** How a request uses its key's limits; `open`: the route requires no key. */
  readonly use: Exclude<Use, "generation" | "count"> | "open";
  /** Always absent: such a route has no format. */
  readonly format?: undefined;
};

export type RouteSpec = GenerationRoute | CountRoute | OtherRoute;

const CONVERSATION_KEYS = ["model", "messages", "stream", "max_tokens"];
const RESPONSE_KEYS = ["model", "input", "stream"];

function prompt<const Operation extends string>(path: string, envelope: Envelope, operation: Operation) {
  const singleKeys = envelope === "b" || operation === "chat" ? CONVERSATION_KEYS : RESPONSE_KEYS;
  return { path, methods: ["POST"], envelope, operation, singleKeys } as const;
}

const TABLE = [
  { ...prompt("/v1/chat/completions", "a", "chat"), use: "generation", format: chat },
  { ...prompt("/v1/messages", "b", "messages"), use: "generation", format: messages },
  { ...prompt("/v1/messages/count_tokens", "b", "count_tokens"), use: "count", format: countTokens },
  { ...prompt("/v1/responses", "a", "responses"), use: "generation", format: responses },
  { ...prompt("/v1/responses/compact", "a", "compact"), use: "generation", format: compaction },
  { ...prompt("/v1/responses/input_tokens", "a", "input_tokens"), use: "count", format: inputTokens },
  { path: "/v1/models", methods: ["GET", "HEAD"], envelope: "a", operation: "list_models", use: "none" },
  { path: "/v1/models/{model}", methods: ["GET", "HEAD"], envelope: "a", operation: "get_model", use: "none" },
  { path: "/openapi.json", methods: ["GET", "HEAD"], envelope: "a", operation: "get_contract", use: "open" },
  // Load generators and load balancers ask here first.
  { path: "/health", methods: ["GET", "HEAD"], envelope: "a", operation: "health", use: "open", unrecorded: true },
  // Agents probe the base URL without a key when they start.
  { path: "/", methods: ["HEAD"], envelope: "a", operation: "probe", use: "open", unrecorded: true },
  { path: "/api/hello", methods: ["HEAD"], envelope: "a", operation: "probe", use: "open" },
] as const satisfies readonly RouteSpec[];

export type Operation = (typeof TABLE)[number]["operation"];

/** Operations whose routes call no engine: each needs its own handler. */
export type OtherOperation = Exclude<(typeof TABLE)[number], { readonly use: "generation" | "count" }>["operation"];

export const ROUTES: readonly (
  | ((GenerationRoute | CountRoute) & { readonly operation: Operation })
  | (OtherRoute & { readonly operation: OtherOperation })
)[] = TABLE;

export type RpcSpec = {
  readonly path: string;
  readonly operation: string;
} & (
  | { readonly use: "generation"; readonly format: typeof contractGenerate }
  | { readonly use: "count"; readonly format: typeof contractCount }
);

/** All methods of the contract for gRPC clients. The others are for nodes only. */
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

/** The path on which WebSockets are accepted; each of their frames is a request of its own. */
export const SOCKET = {
  path: "/v1/responses",
  operation: "responses_frame",
  use: "generation",
  format: responseFrames,
} as const;

type PromptRoute = GenerationRoute | CountRoute | RpcSpec | typeof SOCKET;

/** The routes and methods whose bodies are prompts, by their operations. */
export const PROMPT_ROUTES: ReadonlyMap<string, PromptRoute> = new Map(
  [...ROUTES, ...Object.values(RPCS), SOCKET].flatMap((spec): [string, PromptRoute][] =>
    spec.format ? [[spec.operation, spec]] : [],
  ),
);

const PARAMETER = /\{\w+\}$/;

/**
 * Returns the path of a route in Fastify's syntax: with a wildcard, because an id with a slash is one parameter for
 * callers.
 */
export function urlPattern({ path }: RouteSpec): string {
  return path.replace(PARAMETER, "*");
}

/** Returns the route of `path` among those of the contract, whatever the method; undefined if there is none. */
export function routeAt(path: string): RouteSpec | undefined {
  return ROUTES.find((spec) => {
    const start = spec.path.replace(PARAMETER, "");
    return spec.operation !== "probe" && (start === spec.path ? path === start : path.startsWith(start));
  });
}

/**
 * Returns the envelope of an error about `path`, which need not have a route: that of the nearest route above it, else
 * A.
 */
export function envelopeOf(path: string): Envelope {
  return ROUTES.find((spec) => path === spec.path || path.startsWith(`${spec.path}/`))?.envelope ?? "a";
}

export const OFFERED_PATHS: readonly string[] = ROUTES.filter(
  ({ operation, path }) => operation !== "probe" && operation !== "health" && !PARAMETER.test(path),
).map(({ path }) => path);
