import { isUtf8 } from "node:buffer";
import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import type { JsonScan } from "./json-scan.ts";
import { keepNumbers } from "./json-text.ts";
import { withNumbersQuoted } from "./json-tokens.ts";

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** The form of a lone half of a surrogate pair: with the `u` flag a pair counts as one character. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Makes the error for a body that is not JSON. It must contain neither the text nor the parser's message, which quotes
 * it.
 */
function invalidJson(detail: Detail): ApiError {
  return new ApiError("invalid_json", "The request body is not valid JSON.", { detail });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidJson("json_syntax");
  }
}

/**
 * Returns whether a body may hold half of a surrogate pair; true may be wrong. Valid UTF-8 holds none, so only an
 * escape from `\ud800` to `\udfff` can produce one.
 */
function mayHoldSurrogate(body: Buffer): boolean {
  return body.includes("\\ud") || body.includes("\\uD");
}

/**
 * Returns `value` with U+FFFD for every lone half of a surrogate pair in its strings; objects and arrays are changed in
 * place. No encoding of a lone half is valid for all readers. Throws ApiError `bad_request` if a key holds one, as keys
 * are names. It is recursive, for values of bounded depth.
 */
export function wellFormed(value: unknown): unknown {
  // Encoding replaces every lone half, and is much faster than doing so by pattern.
  if (typeof value === "string") return LONE_SURROGATE.test(value) ? Buffer.from(value).toString() : value;
  if (Array.isArray(value)) {
    for (const [position, item] of value.entries()) value[position] = wellFormed(item);
    return value;
  }
  if (typeof value !== "object" || value === null) return value;
  for (const key of Object.keys(value)) {
    if (LONE_SURROGATE.test(key))
      throw new ApiError("bad_request", "The request body holds a key that is not valid Unicode.", {
        detail: "json_key_not_unicode",
      });
    // A key `__proto__` is a property of its own after JSON.parse, so this sets it and not the prototype.
    Reflect.set(value, key, wellFormed(Reflect.get(value, key)));
  }
  return value;
}

/**
 * Returns the object that a request body holds, in UTF-8; a byte order mark is skipped. Keys such as `__proto__` stay
 * plain data of their object: code that copies such an object uses spread, never assignment key by key. `jsonText`
 * writes the numbers in the object, at least three levels deep, as the caller wrote them. `scan` was fed with all of
 * `body`; the time it takes is bounded by that scan's limits and the size of `body`. Throws ApiError: `invalid_json`
 * for bytes that are not UTF-8 or not JSON; `bad_request` for a root that is not an object, a text that the scan
 * refuses, or a key with a lone surrogate. Messages repeat nothing of the body except the names of the single keys.
 */
export function parseBody(body: Buffer, scan: JsonScan): object {
  const marked = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  const json = marked ? body.subarray(BYTE_ORDER_MARK.length) : body;
  if (!isUtf8(json)) throw invalidJson("json_not_utf8");
  scan.end();
  const value = parse(json.toString("utf8"));
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ApiError("bad_request", "The request body should be a JSON object.", { detail: "json_not_an_object" });
  if (mayHoldSurrogate(json)) wellFormed(value);
  if (scan.isRestated) keepNumbers(value, parse(withNumbersQuoted(json)));
  return value;
}
