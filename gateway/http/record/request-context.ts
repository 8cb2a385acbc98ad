import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { ApiError, toApiError } from "../../errors.ts";
import { PRIORITY } from "../../formats/agent-hints.ts";
import { FOR_LOAD_TESTS } from "../../formats/fields.ts";
import type { Principal } from "../../keys/principal.ts";
import { routingDigest } from "../../keys/principal.ts";
import type { RouteSpec } from "../../routes.ts";
import type { RoutingHints } from "../../upstream/load-balancing/route.ts";
import type { RouteLabels } from "./request-record.ts";

/** The header by which a request orders the loss of its engine after some deltas. */
const LOSE_ENGINE = "x-svc-lose-engine";

/**
 * Returns the inputs of load balancing from the key and the headers of a request. Digests of one tenant never match
 * those of another, nor under another salt. `requestPriority` is the request's own, by which it may only be lowered.
 * Throws `ApiError` where it orders a loss that its key may not.
 */
export function routingHints(
  { routingKey, priority, weight, keyId, limits, loadTests }: Principal,
  headers: IncomingHttpHeaders,
  requestPriority = 0,
): RoutingHints {
  const losesEngine = headers[LOSE_ENGINE] !== undefined;
  if (losesEngine && !loadTests) throw new ApiError("permission_denied", `${LOSE_ENGINE}: ${FOR_LOAD_TESTS}`);
  return {
    digest: (...parts) => routingDigest(routingKey, "affinity", ...parts).toString("base64url"),
    headers,
    priorityClass: requestPriority <= PRIORITY.BACKGROUND ? "low" : PRIORITY_CLASS[priority],
    weight,
    keyId,
    maxPendingRequests: limits.queued,
    losesEngine,
  };
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** Missing on routes for unknown paths. */
    readonly spec?: RouteSpec;
    readonly labels?: RouteLabels;
  }

  interface FastifyRequest {
    callerAddress: string;
  }
}

/** A reply in progress, as the hooks at its end see it: Node's reply for HTTP, and a call for gRPC. */
export type ReplyUnderWay = {
  /** Whether the reply cannot be delivered any more. */
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  readonly statusCode: number;
  /** Whether the reply has been written to its end. */
  readonly writableFinished: boolean;
  /** Calls `listener` once, when the reply has ended or its caller has left. */
  on(event: "close", listener: () => void): unknown;
};

/** Returns the route of a request; undefined if none has its path and method. */
export function routeOf({ routeOptions }: FastifyRequest): RouteSpec | undefined {
  return routeOptions.config?.spec;
}

/** Queue class for each priority in the record of a key. */
export const PRIORITY_CLASS = { HIGH: "high", DEFAULT: "default", LOW: "low" } as const;

/** Returns the owner of the key of a request. Throws if a route does not require a key, which is a bug. */
export function principalOf(request: FastifyRequest): Principal {
  const { principal } = request.record.facts;
  if (!principal) throw new ApiError("server_error", "The server had an error while processing your request.");
  return principal;
}

/** API errors by codes of Fastify and Node. The texts of those may quote the request, so none is passed on. */
const BY_CODE: Readonly<Record<string, () => ApiError>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new ApiError("unsupported_media_type", "The content type must be application/json."),
  FST_ERR_BAD_URL: () => new ApiError("bad_request", "The request path is not valid."),
  FST_ERR_MAX_PARAM_LENGTH: () => new ApiError("unknown_url", "Unknown request URL."),
  ECONNRESET: bodyBrokeOff,
};

/** Makes the error for a caller that left during its request. */
export function bodyBrokeOff(): ApiError {
  return new ApiError("bad_request", "The request body broke off.", { detail: "downstream_remote_disconnect" });
}

export function fromFastify(error: unknown): ApiError {
  const code = typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined;
  const known = typeof code === "string" ? BY_CODE[code] : undefined;
  return known ? known() : toApiError(error);
}
