import type { FastifyInstance } from "fastify";
import { toApiError } from "../../errors.ts";
import type { KeyStore } from "../../keys/key-store.ts";
import type { AuthFailures } from "../../limits/auth-failures.ts";
import type { Stats } from "../../stats/stats.ts";
import { addressOf, networkOf } from "../record/client-address.ts";
import { invalidApiKey, presentedKey } from "./credentials.ts";

export type AuthDeps = {
  readonly keys: KeyStore;
  readonly failures: AuthFailures;
  /** Proxies in front that say in `x-forwarded-for` where a request came from. */
  readonly trustedHops: number;
  readonly stats: Stats;
};

/**
 * Every route of this context needs a key. Decided before a byte of the body is read. Who sends too many wrong ones gets the
 * same answer, and a closed connection each time. A key that opens is never refused for what others at its address do:
 * they may be many behind one, and looking a key up costs less than anything else that could be done about them.
 */
export function requireKey(app: FastifyInstance, deps: AuthDeps): void {
  app.addHook("onRequest", async (request, reply) => {
    try {
      const principal = deps.keys.find(presentedKey(request.raw.rawHeaders));
      if (!principal) throw invalidApiKey();
      request.record.authenticated(principal);
    } catch (error) {
      const within = deps.failures.add(networkOf(addressOf(request.raw, deps.trustedHops)));
      if (!within) {
        reply.header("connection", "close");
        request.record.refused("auth_failures_exceeded");
      }
      deps.stats.authFailures.inc({ reason: request.record.detail ?? toApiError(error).detail });
      throw error;
    }
  });
}
