import type { FastifyInstance } from "fastify";
import { ApiError, toApiError } from "../../errors.ts";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Principal } from "../../keys/principal.ts";
import type { TokenVerifier } from "../../keys/tokens/token-verifier.ts";
import type { TokenBuckets } from "../../limits/token-bucket.ts";
import type { Stats } from "../../stats/stats.ts";
import { addressOf, networkOf } from "../record/client-address.ts";
import type { RequestRecord } from "../record/request-record.ts";
import { invalidApiKey, presentedKeys } from "./credentials.ts";

export type AuthDeps = {
  readonly keys: KeyStore;
  /** Verifies tokens that are accepted instead of keys; undefined if none are. */
  readonly tokens: TokenVerifier | undefined;
  /** Counts failed authentications by network. */
  readonly failures: Pick<TokenBuckets, "tryTake">;
  /** Number of proxies in front that append to `x-forwarded-for`; at 0 the header is ignored. */
  readonly trustedHops: number;
  readonly stats: Stats;
};

/**
 * Makes every route of this context require a key, before a byte of the body is read. A network that sends too many
 * wrong keys gets the same reply, and its connection is closed each time. A valid key is never refused because of other
 * requests from its address: many callers may share one, and looking up a key costs less than any measure against them.
 */
export function requireKey(app: FastifyInstance, deps: AuthDeps): void {
  app.addHook("onRequest", async (request, reply) => {
    const address = addressOf(request.raw, deps.trustedHops);
    const { record } = request;
    const { rawHeaders } = request.raw;
    await authenticate({ record, rawHeaders, address, onTooMany: () => reply.header("connection", "close") }, deps);
  });
}

/** A request to authenticate. */
export type KeyedRequest = {
  /** Receives the owner of the key. */
  readonly record: RequestRecord;
  /** Alternating names and values of the headers, as in Node. */
  readonly rawHeaders: readonly string[];
  readonly address: string;
  /** Called if the network of the address has sent more wrong keys than allowed. */
  readonly onTooMany: () => void;
};

/**
 * Finds the owner of a request's key or token, and records it. Rejects with `ApiError` if none is valid. It does not
 * wait if the key is valid or no tokens are accepted.
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
    const within = failures.tryTake(networkOf(address));
    if (!within) {
      onTooMany();
      record.refused("auth_failures_exceeded");
    }
    stats.authFailures.inc({ reason: record.detail ?? toApiError(error).detail });
    throw error;
  }
}

/** Returns the principal of the first valid key, of the two that a request can carry. Throws ApiError. */
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

/** Resolves to the principal of the first valid token. Rejects with ApiError. */
async function presenterOfToken(rawHeaders: readonly string[], tokens: TokenVerifier | undefined): Promise<Principal> {
  for (const token of tokens ? presentedKeys(rawHeaders, tokens.longest) : []) {
    const principal = await tokens?.find(token);
    if (principal) return principal;
  }
  throw invalidApiKey();
}

/** Makes the error for a valid key from an address where it may not be used, such as a stolen one. */
function addressNotAllowed(): ApiError {
  return new ApiError("permission_denied", "This API key may not be used from your network address.", {
    detail: "address_not_allowed",
  });
}
