import type { FastifyReply, FastifyRequest } from "fastify";
import { ApiError, toApiError } from "../../errors.ts";
import type { KeyStore } from "../../keys/key-store.ts";
import type { Principal } from "../../keys/principal.ts";
import type { TokenVerifier } from "../../keys/tokens/token-verifier.ts";
import type { TokenBuckets } from "../../limits/token-bucket.ts";
import type { Detail } from "../../outcome.ts";
import type { Stats } from "../../stats/stats.ts";
import { networkOf } from "../record/client-address.ts";
import type { RequestRecord } from "../record/request-record.ts";

export type AuthDeps = {
  readonly keys: KeyStore;
  /** Verifies tokens that are accepted instead of keys; undefined if none are. */
  readonly tokens: TokenVerifier | undefined;
  readonly failures: Pick<TokenBuckets, "tryTake">;
  readonly stats: Stats;
};

/**
 * Requires a key. A network that sends too many wrong keys gets the same reply, and its connection is closed each time.
 * A valid key is never refused because of other requests from its address: many callers may share one, and looking up a
 * key costs less than any measure against them.
 */
export async function requireKey(
  { record, raw: { rawHeaders }, callerAddress: address }: FastifyRequest,
  reply: FastifyReply,
  deps: AuthDeps,
): Promise<void> {
  const onTooMany = () => reply.header("connection", "close");
  await authenticate({ record, rawHeaders, address, onTooMany }, deps);
}

export type KeyedRequest = {
  readonly record: RequestRecord;
  /** Alternating names and values of the headers, as in Node. */
  readonly rawHeaders: readonly string[];
  readonly address: string;
  /** Called if the network of the address has sent more wrong keys than allowed. */
  readonly onTooMany: () => void;
};

/** Finds the owner of a request's key or token, and records it. Rejects with `ApiError` if none is valid. */
export async function authenticate(
  { record, rawHeaders, address, onTooMany }: KeyedRequest,
  { keys, tokens, failures, stats }: AuthDeps,
): Promise<Principal> {
  try {
    const presented = presentedKeys(rawHeaders, tokens?.longest);
    let principal: Principal | undefined;
    for (const key of presented) principal ??= keys.find(key);
    if (tokens) for (const token of presented) principal ??= await tokens.find(token);
    if (!principal) throw invalidApiKey();
    record.authenticated(principal);
    if (principal.networks && !principal.networks.has(address))
      throw new ApiError("permission_denied", "This API key may not be used from your network address.", {
        detail: "address_not_allowed",
      });
    return principal;
  } catch (error) {
    const within = failures.tryTake(networkOf(address));
    if (!within) {
      onTooMany();
      record.refused("auth_failures_exceeded");
    }
    stats.authFailures.inc({ reason: record.facts.detail ?? toApiError(error).detail });
    throw error;
  }
}

/** Longest key that is parsed, in characters; our keys have 72. */
const MAX_KEY_LENGTH = 128;

/** Characters of a header value besides the key: its scheme and some spaces. */
const MAX_BESIDE_KEY = 128;

const BEARER = /^bearer +([\x21-\x7e]+)$/i;
const BARE = /^([\x21-\x7e]+)$/;

/** The end of every authentication error. Agents recognize by the name of the header that their key is wrong. */
const HOW = "Send a valid key in the header 'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'.";

/**
 * Makes the error for a request without a valid key. Its text is the same for every reason, and blames neither of the
 * two headers; `detail`, by default `api_key_invalid`, gives the reason to log and statistics.
 */
export function invalidApiKey(detail: Detail = "api_key_invalid"): ApiError {
  const wording = { a: `Incorrect API key provided. ${HOW}`, b: `Invalid API key. ${HOW}` };
  return new ApiError("invalid_api_key", wording, { detail });
}

/** Returns the value of the header `name`, which is in lower case; "" if it is missing or empty. */
function onlyValue(rawHeaders: readonly string[], name: string): string {
  let value: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== name) continue;
    if (value !== undefined)
      throw new ApiError("bad_request", `The header '${name}' is given more than once.`, {
        detail: "credentials_duplicate",
      });
    value = rawHeaders[at + 1];
  }
  return value ?? "";
}

function keyIn(value: string, form: RegExp, longest: number): string | undefined {
  if (value.length > longest + MAX_BESIDE_KEY) return undefined;
  const key = form.exec(value)?.[1];
  return key !== undefined && key.length <= longest ? key : undefined;
}

/**
 * Returns the keys that the caller presents, one or two, in the order in which they are tried: `x-api-key`, then
 * `Authorization: Bearer` (scheme in any case). An agent may send the credential of another service beside the right
 * one, so a header that is empty, or cannot hold a key, is ignored. It takes `rawHeaders` of Node's request,
 * alternating names and values, because `headers` silently keeps the first of two `Authorization` headers and joins two
 * `x-api-key`; `longest` is the length of the longest accepted credential, by default that of a key, 128. Throws
 * ApiError: `invalid_api_key` if no header holds a possible key; `bad_request` if one of the headers is repeated.
 */
export function presentedKeys(rawHeaders: readonly string[], longest = MAX_KEY_LENGTH): readonly string[] {
  const apiKey = onlyValue(rawHeaders, "x-api-key");
  const authorization = onlyValue(rawHeaders, "authorization");
  if (apiKey === "" && authorization === "")
    throw new ApiError("invalid_api_key", `Missing API key. ${HOW}`, { detail: "api_key_missing" });
  const bare = keyIn(apiKey, BARE, longest);
  const bearer = keyIn(authorization, BEARER, longest);
  const keys = bare === undefined ? [] : [bare];
  if (bearer !== undefined && bearer !== bare) keys.push(bearer);
  if (keys.length === 0) throw invalidApiKey("api_key_malformed");
  return keys;
}
