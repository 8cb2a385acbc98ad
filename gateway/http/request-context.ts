import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { ApiError } from "../errors.ts";
import type { Principal } from "../keys/principal.ts";
import { routingDigest } from "../keys/routing-digest.ts";
import type { RouteSpec } from "../routes.ts";
import type { RoutingHints } from "../upstream/load-balancing/routing-hints.ts";

/**
 * Returns what picking an endpoint may look at, in the key of a caller and the headers of its request. Digests of one
 * tenant never match those of another, nor under another salt.
 */
export function routingHints(
  { routingKey, priority, weight, keyId, limits }: Principal,
  headers: IncomingHttpHeaders,
): RoutingHints {
  return {
    digest: (...parts) => routingDigest(routingKey, "affinity", ...parts).toString("base64url"),
    headers,
    priorityClass: PRIORITY_CLASS[priority],
    weight,
    keyId,
    maxPendingRequests: limits.queued,
  };
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The row of the route; missing on what answers paths that no route has. */
    readonly spec?: RouteSpec;
  }
}

/**
 * A reply under way, as far as those see it who settle something when it is over: that of Node for HTTP, and that of a
 * call for gRPC.
 */
export type ReplyUnderWay = {
  /** Whether nobody can get the reply any more. */
  readonly destroyed: boolean;
  /** Whether the status of the reply has been sent. */
  readonly headersSent: boolean;
  /** The status of the reply, as HTTP has it. */
  readonly statusCode: number;
  /** Whether the reply has been written to its end. */
  readonly writableFinished: boolean;
  /** Calls `listener` when the reply is over or its caller has left, which no reply is twice. */
  on(event: "close", listener: () => void): unknown;
};

/** Returns the route of a request; undefined where none has its path and method. */
export function routeOf({ routeOptions }: FastifyRequest): RouteSpec | undefined {
  return routeOptions.config?.spec;
}

/** The class of the queue for each priority in the record of a key. */
export const PRIORITY_CLASS = { HIGH: "high", DEFAULT: "default", LOW: "low" } as const;

/** Returns the owner of the key of a request. Throws where a route forgot to ask for a key: that is a fault of ours. */
export function principalOf(request: FastifyRequest): Principal {
  const { principal } = request.record;
  if (!principal) throw new ApiError("server_error", "The server had an error while processing your request.");
  return principal;
}
