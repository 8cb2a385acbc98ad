import type { FastifyInstance } from "fastify";
import { ApiError, toApiError } from "../../errors.ts";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Principal } from "../../keys/principal.ts";
import type { AuthFailures } from "../../limits/auth-failures.ts";
import type { Stats } from "../../stats/stats.ts";
import { addressOf, networkOf } from "../record/client-address.ts";
import { invalidApiKey, presentedKeys } from "./credentials.ts";

/** What checking the key of a request works with. */
export type AuthDeps = {
  /** The keys that are valid. */
  readonly keys: KeyStore;
  /** Counts the requests without a valid key, by the network they came from. */
  readonly failures: AuthFailures;
  /** The number of proxies in front that add to `x-forwarded-for`; at 0 the header means nothing. */
  readonly trustedHops: number;
  /** Counts the requests without a valid key, by reason. */
  readonly stats: Stats;
};

/**
 * Makes every route of this context ask for a key, before a byte of the body is read. A network that sends too many
 * wrong keys gets the same answer, and a closed connection each time. A valid key is never refused for what others at
 * its address do: they may be many behind one, and looking a key up costs less than anything else that could be done
 * about them.
 */
export function requireKey(app: FastifyInstance, deps: AuthDeps): void {
  app.addHook("onRequest", async (request, reply) => {
    const address = addressOf(request.raw, deps.trustedHops);
    try {
      const principal = presenterOf(request.raw.rawHeaders, deps.keys);
      request.record.authenticated(principal);
      if (principal.networks && !principal.networks.has(address)) throw addressNotAllowed();
    } catch (error) {
      const within = deps.failures.add(networkOf(address));
      if (!within) {
        reply.header("connection", "close");
        request.record.refused("auth_failures_exceeded");
      }
      deps.stats.authFailures.inc({ reason: request.record.detail ?? toApiError(error).detail });
      throw error;
    }
  });
}

/** Returns who presents the first key that is valid, of the two that a request can hold. Throws ApiError. */
function presenterOf(rawHeaders: readonly string[], keys: KeyStore): Principal {
  for (const key of presentedKeys(rawHeaders)) {
    const principal = keys.find(key);
    if (principal) return principal;
  }
  throw invalidApiKey();
}

/** Makes the error for a valid key that comes from where it may not be used, such as one that was copied. */
function addressNotAllowed(): ApiError {
  return new ApiError("permission_denied", "This API key may not be used from your network address.", {
    detail: "address_not_allowed",
  });
}
