import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import type { CacheHints } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { ApiError } from "../errors.ts";
import type { FormatSettings, PrepareContext } from "../formats/format.ts";
import type { Principal } from "../keys/principal.ts";
import type { RouteSpec } from "../routes.ts";
import type { Sealing } from "../sealing/sealing.ts";
import type { ClusterManager } from "../upstream/cluster-manager.ts";
import type { RoutingHints } from "../upstream/load-balancing/routing-hints.ts";

/** Knows what handling a body needs from the rest of the gateway. */
export class RequestContext {
  /** Seals what the tenant of a request carries. */
  readonly sealing: Sealing;
  readonly #clusters: ClusterManager;
  readonly #settings: FormatSettings;

  constructor(clusters: ClusterManager, sealing: Sealing, settings: FormatSettings) {
    this.#clusters = clusters;
    this.sealing = sealing;
    this.#settings = settings;
  }

  /** Returns what the format of a name needs to check and translate the body of a caller. */
  prepareContext({ tenant }: Principal, format: string): PrepareContext {
    return {
      sealer: (model) => this.sealing.for({ tenant, model, format }),
      acceptsImages: (model) => this.#clusters.cluster(model)?.acceptsImages ?? false,
      settings: this.#settings,
    };
  }

  /**
   * Returns the cache hints that the engine gets: the caller's own cache key never leaves the gateway, and means
   * nothing beside another tenant's.
   */
  cacheHints({ routingKey, cacheSalt }: Principal, hints: CacheHints | undefined): CacheHints {
    const key = hints?.affinityKey ?? "";
    return {
      affinityKey: key === "" ? "" : digest(routingKey, "affinity", key).toString("base64url"),
      isolationSalt: cacheSalt,
      ttl: hints?.ttl,
    };
  }

  /**
   * Returns what picking an endpoint may look at. The prefixes of one tenant never match those of another, nor under
   * another salt. Gateways that share keys digest them alike, so that they agree on where a conversation belongs.
   */
  routingHints(
    { routingKey, priority, weight, keyId, limits }: Principal,
    model: string,
    headers: IncomingHttpHeaders,
  ): RoutingHints {
    return {
      prefixKey: digest(routingKey, "prefix", model),
      digest: (...parts) => digest(routingKey, "affinity", ...parts).toString("base64url"),
      headers,
      priorityClass: PRIORITY_CLASS[priority],
      weight,
      keyId,
      maxPendingRequests: limits.queued,
    };
  }
}

/** Returns 32 bytes that differ for every key, purpose and list of parts, and tell nothing about them. */
function digest(key: Buffer, purpose: string, ...parts: readonly string[]): Buffer {
  return createHmac("sha256", key)
    .update(JSON.stringify([purpose, ...parts]))
    .digest();
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The row of the route; missing on what answers paths that no route has. */
    readonly spec?: RouteSpec;
  }
}

/** Returns the route of a request; undefined where none has its path and method. */
export function routeOf({ routeOptions }: FastifyRequest): RouteSpec | undefined {
  return routeOptions.config?.spec;
}

/**
 * Returns the parsed body of a request and takes it away from there: the request lives for as long as its answer, and a
 * big body must not.
 */
export function takeBody(request: FastifyRequest): unknown {
  const { body } = request;
  request.body = undefined;
  return body;
}

/** The class of the queue for each priority in the record of a key. */
export const PRIORITY_CLASS = { HIGH: "high", DEFAULT: "default", LOW: "low" } as const;

/** Returns the owner of the key of a request. Throws where a route forgot to ask for a key: that is a fault of ours. */
export function principalOf(request: FastifyRequest): Principal {
  const { principal } = request.record;
  if (!principal) throw new ApiError("server_error", "The server had an error while processing your request.");
  return principal;
}
