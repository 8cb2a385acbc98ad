import type { FastifyInstance } from "fastify";
import { ApiError, toApiError } from "../../errors.ts";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Principal } from "../../keys/principal.ts";
import type { TokenVerifier } from "../../keys/tokens/token-verifier.ts";
import type { AuthFailures } from "../../limits/auth-failures.ts";
import type { Stats } from "../../stats/stats.ts";
import { addressOf, networkOf } from "../record/client-address.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { invalidApiKey, presentedKeys } from "./credentials.ts";

/** What checking the key of a request works with. */
export type AuthDeps = {
  /** The keys that are valid. */
  readonly keys: KeyStore;
  /** Knows the tokens that are taken in the place of keys; undefined where none are. */
  readonly tokens: TokenVerifier | undefined;
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
    const { record } = request;
    const { rawHeaders } = request.raw;
    await authenticate({ record, rawHeaders, address, onTooMany: () => reply.header("connection", "close") }, deps);
  });
}

/** A request whose key is to be found. */
export type KeyedRequest = {
  /** The record of the request, which is told whose key it was. */
  readonly record: RequestRecord;
  /** The names and values of the headers in turn, as Node has them. */
  readonly rawHeaders: readonly string[];
  /** The address that the request came from. */
  readonly address: string;
  /** Called where the network of the address has sent more wrong keys than it may. */
  readonly onTooMany: () => void;
};

/**
 * Finds the owner of the key of a request, or of its token, and tells its record. Rejects with `ApiError` for one that
 * does not open the service. Nothing is waited for where the key is valid or no tokens are taken.
 */
export async function authenticate(
  { record, rawHeaders, address, onTooMany }: KeyedRequest,
  { keys, tokens, failures, stats }: Omit<AuthDeps, "trustedHops">,
): Promise<Principal> {
  try {
    const principal = presenterOfKey(rawHeaders, keys, tokens) ?? (await presenterOfToken(rawHeaders, tokens));
    record.authenticated(principal);
    if (principal.networks && !principal.networks.has(address)) throw addressNotAllowed();
    return principal;
  } catch (error) {
    const within = failures.add(networkOf(address));
    if (!within) {
      onTooMany();
      record.refused("auth_failures_exceeded");
    }
    stats.authFailures.inc({ reason: record.detail ?? toApiError(error).detail });
    throw error;
  }
}

/** Returns who presents the first key that is valid, of the two that a request can hold. Throws ApiError. */
function presenterOfKey(
  rawHeaders: readonly string[],
  keys: KeyStore,
  tokens: TokenVerifier | undefined,
): Principal | undefined {
  for (const key of presentedKeys(rawHeaders, tokens?.longest)) {
    const principal = keys.find(key);
    if (principal) return principal;
  }
  return undefined;
}

/** Resolves to who presents the first token that is valid. Rejects with ApiError. */
async function presenterOfToken(rawHeaders: readonly string[], tokens: TokenVerifier | undefined): Promise<Principal> {
  for (const token of tokens ? presentedKeys(rawHeaders, tokens.longest) : []) {
    const principal = await tokens?.find(token);
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
