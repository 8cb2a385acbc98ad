import { ApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";

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

function missingApiKey(): ApiError {
  return new ApiError("invalid_api_key", `Missing API key. ${HOW}`, { detail: "api_key_missing" });
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
  if (apiKey === "" && authorization === "") throw missingApiKey();
  const bare = keyIn(apiKey, BARE, longest);
  const bearer = keyIn(authorization, BEARER, longest);
  const keys = [bare, bearer === bare ? undefined : bearer].filter((key) => key !== undefined);
  if (keys.length === 0) throw invalidApiKey("api_key_malformed");
  return keys;
}
