import type { FastifyInstance } from "fastify";
import { ApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";
import type { OverloadManager } from "../../overload/overload-manager.ts";
import { atOnce } from "../at-once.ts";

const MIN_RETRY_MS = 1_000;
const RETRY_SPREAD_MS = 2_000;

/** Refuses requests of this context while the process is in trouble, before a byte of their body is read. */
export function shedRequests(app: FastifyInstance, overload: OverloadManager, random: () => number): void {
  app.addHook(
    "onRequest",
    atOnce(() => refuseInTrouble(overload, random)),
  );
}

/** Throws `ApiError` while the process is in too much trouble to take a request. */
export function refuseInTrouble(overload: OverloadManager, random: () => number): void {
  if (overload.isActive("stopAcceptingRequests")) throw inTrouble("overload_stop_accepting_requests", random);
}

/** Makes the error for a request that the overload manager refuses. `random` is uniform over [0, 1). */
export function inTrouble(detail: Detail, random: () => number): ApiError {
  return new ApiError("server_is_overloaded", "The service is overloaded. Please try again shortly.", {
    retryAfterMs: MIN_RETRY_MS + random() * RETRY_SPREAD_MS,
    detail,
  });
}
