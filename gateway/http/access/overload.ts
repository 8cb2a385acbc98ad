import type { FastifyInstance } from "fastify";
import { ApiError } from "../../errors.ts";
import type { Principal } from "../../keys/principal.ts";
import type { Use } from "../../limits/limiter.ts";
import type { Detail } from "../../outcome.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import { atOnce } from "../at-once.ts";
import { principalOf, routeOf } from "../request-context.ts";

const MIN_RETRY_MS = 1_000;
const RETRY_SPREAD_MS = 2_000;

/**
 * Closes connections after their response while the process is under pressure, so that clients may reach another
 * gateway.
 */
export function endConnectionsUnderPressure(app: FastifyInstance, overload: OverloadManager): void {
  const closing = atOnce((_request, reply) => {
    if (overload.isActive("disableHttpKeepalive")) reply.header("connection", "close");
  });
  app.addHook("onRequest", closing);
}

/** Refuses requests of this context while the process is overloaded, before a byte of their body is read. */
export function shedRequests(app: FastifyInstance, overload: OverloadManager, random: () => number): void {
  const shedding = atOnce((request) => {
    const { priority } = principalOf(request);
    refuseInTrouble({ use: routeOf(request)?.use ?? "open", priority }, overload, random);
  });
  app.addHook("onRequest", shedding);
}

/** Throws `ApiError` for a request that the overload manager refuses. */
export function refuseInTrouble(
  { use, priority }: { readonly use: Use | "open" } & Pick<Principal, "priority">,
  overload: OverloadManager,
  random: () => number,
): void {
  if (overload.isActive("stopAcceptingRequests")) throw inTrouble("overload_stop_accepting_requests", random);
  if (!overload.isActive("rejectNonCritical")) return;
  if (use === "count" || priority === "LOW") throw inTrouble("overload_reject_non_critical", random);
}

/** Makes the error for a request that the overload manager refuses. `random` is uniform over [0, 1). */
export function inTrouble(detail: Detail, random: () => number): ApiError {
  return new ApiError("server_is_overloaded", "The service is overloaded. Please try again shortly.", {
    retryAfterMs: MIN_RETRY_MS + random() * RETRY_SPREAD_MS,
    detail,
  });
}
