import { ApiError } from "../../errors.ts";
import type { Detail } from "../../outcome.ts";

/** The length of the longest key that is looked at, in characters; a key of ours has 72. */
const MAX_KEY_LENGTH = 128;

const BEARER = /^bearer ([\x21-\x7e]{1,128})$/i;
const BARE = /^([\x21-\x7e]{1,128})$/;
const MAX_VALUE_LENGTH = "bearer ".length + MAX_KEY_LENGTH;

/**
 * Makes the error for any key that opens nothing. Its words are the same whatever is wrong with the key; `detail` says
 * it to log and statistics, `api_key_invalid` by default.
 */
export function invalidApiKey(detail: Detail = "api_key_invalid"): ApiError {
  return new ApiError("invalid_api_key", { a: "Incorrect API key provided.", b: "invalid x-api-key" }, { detail });
}

function missingApiKey(): ApiError {
  const how = "'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'";
  return new ApiError(
    "invalid_api_key",
    { a: `Missing API key. Send it in the header ${how}.`, b: "invalid x-api-key" },
    { detail: "api_key_missing" },
  );
}

/** Returns the value of the header `name`, which is in lower case; undefined where it is missing. */
function onlyValue(rawHeaders: readonly string[], name: string): string | undefined {
  let value: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== name) continue;
    if (value !== undefined)
      throw new ApiError("bad_request", `The header '${name}' is given more than once.`, {
        detail: "credentials_duplicate",
      });
    value = rawHeaders[at + 1];
  }
  return value;
}

function keyIn(value: string, form: RegExp): string {
  const key = value.length <= MAX_VALUE_LENGTH ? form.exec(value)?.[1] : undefined;
  if (key === undefined) throw invalidApiKey("api_key_malformed");
  return key;
}

/**
 * Returns the key that the caller presents, from `Authorization: Bearer` (the scheme in any case, one space) or
 * `x-api-key`. Where both are sent they have to be equal. It takes `rawHeaders` of Node's request, names and values in
 * turn: its `headers` keep the first of two `Authorization` silently and join two `x-api-key`. Throws ApiError:
 * `invalid_api_key` when there is none, its form is wrong or the two differ; `bad_request` when one of the headers
 * stands there twice.
 */
export function presentedKey(rawHeaders: readonly string[]): string {
  const authorization = onlyValue(rawHeaders, "authorization");
  const apiKey = onlyValue(rawHeaders, "x-api-key");
  const bearer = authorization === undefined ? undefined : keyIn(authorization, BEARER);
  const bare = apiKey === undefined ? undefined : keyIn(apiKey, BARE);
  const key = bearer ?? bare;
  if (key === undefined) throw missingApiKey();
  if (bare !== undefined && bare !== key) throw invalidApiKey("api_keys_differ");
  return key;
}
