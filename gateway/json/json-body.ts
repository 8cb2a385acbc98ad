import { isUtf8 } from "node:buffer";
import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import { keepNumbers } from "./json-text.ts";

/*
 * A body is scanned before it is parsed, as parsing is expensive: 16 MiB of `[{},{},…]` block the process for more than
 * a second, and deep nesting breaks every recursive walk that follows. The scan is exact for valid JSON; validity is
 * left to the parser, which stops at the same byte that misleads the scan.
 */

/** The most objects and arrays within one another, the outermost included. */
export const MAX_JSON_DEPTH = 64;

/** The most values of all kinds in a body; keys do not count. */
export const MAX_JSON_NODES = 200_000;

/** A body whose cost is known and bounded. */
export type ScannedBody = {
  /** The JSON text in UTF-8, without a byte order mark. */
  readonly json: Buffer;
  /** The number of values of all kinds. */
  readonly nodes: number;
  /**
   * The positions of the numbers that `JSON.stringify` writes differently, such as `1.0` or `9007199254740993`, in
   * values that are passed on as text: begin and end of each.
   */
  readonly restated: readonly number[];
  /** The JSON text of the value of each single key that the body has; of any bytes where the text is not JSON. */
  readonly values: ReadonlyMap<string, Buffer>;
};

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** Values at smaller depths are read field by field; the outermost one passed on is the schema in `output_format`. */
const OUTERMOST_TEXT_DEPTH = 3;

/** The length up to which every integer is exact and is written back unchanged. */
const SURELY_EXACT_LENGTH = 15;

/** In bytes; real numbers are shorter, and reading a longer one would cost more than its bytes justify. */
const MAX_NUMBER_LENGTH = 1000;

/** The bytes of a string that are walked one by one before native code searches for its end. */
const WALKED_BYTES = 48;

const SPACE = 0x20;
const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const UPPER_E = 0x45;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_A = 0x61;
const LOWER_E = 0x65;
const LOWER_Z = 0x7a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Scans a body in time that is linear in its length. `singleKeys` may occur only once at the top: a proxy in front of
 * the gateway may use the first of two, while the parser takes the last. Throws `ApiError`: `invalid_json` for bytes
 * that are not UTF-8; `bad_request` for a body over the limits, for a number that is not finite (`1e999`), and for the
 * second of a single key.
 */
export function scanBody(body: Buffer, singleKeys: readonly string[]): ScannedBody {
  const marked = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  const json = marked ? body.subarray(BYTE_ORDER_MARK.length) : body;
  if (!isUtf8(json)) throw invalidJson("json_not_utf8");
  const isObject = new Uint8Array(MAX_JSON_DEPTH + 1);
  const missingKeys = new Set(singleKeys);
  const restated: number[] = [];
  const values = new Map<string, Buffer>();
  /** The single key whose value is being scanned, and where that begins. */
  let single: string | undefined;
  let begin = 0;
  let depth = 0;
  let nodes = 0;
  let keyComes = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === undefined || byte <= SPACE) continue;
    if (byte === QUOTE) {
      const start = at + 1;
      at = endOfString(json, start);
      if (!keyComes) nodes += 1;
      else if (depth === 1) {
        single = noteKey(json.toString("latin1", start, at), singleKeys, missingKeys);
        // A search for each key of a text without colons would be quadratic.
        if (single !== undefined) begin = json.indexOf(COLON, at) + 1;
      }
      keyComes = false;
    } else if (byte === COMMA) {
      keyComes = isObject[depth] === 1;
      if (depth === 1 && single !== undefined) {
        values.set(single, json.subarray(begin, at));
        single = undefined;
      }
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      nodes += 1;
      depth += 1;
      if (depth > MAX_JSON_DEPTH) throw tooBig("nested more deeply", MAX_JSON_DEPTH, "levels", "json_depth");
      keyComes = byte === OPEN_BRACE;
      isObject[depth] = keyComes ? 1 : 0;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth = Math.max(0, depth - 1);
      keyComes = false;
      if (depth === 0 && single !== undefined) {
        values.set(single, json.subarray(begin, at));
        single = undefined;
      }
    } else if (isLetter(byte)) {
      nodes += 1;
      while (isLetter(json[at + 1])) at += 1;
    } else if (isNumberByte(byte)) {
      nodes += 1;
      const start = at;
      while (isNumberByte(json[at + 1])) at += 1;
      if (isRestated(json, start, at + 1) && depth >= OUTERMOST_TEXT_DEPTH) restated.push(start, at + 1);
    }
    if (nodes > MAX_JSON_NODES) throw tooBig("made of more", MAX_JSON_NODES, "values", "json_nodes");
  }
  return { json, nodes, restated, values };
}

/**
 * Parses a scanned body. Keys such as `__proto__` stay plain data of their object: code that copies such an object uses
 * spread, never assignment key by key. `jsonText` writes the numbers, at least three levels deep, as the caller wrote
 * them. Throws `ApiError`: `invalid_json` for text that is not JSON; `bad_request` for a root that is not an object and
 * for a key with a lone surrogate. Messages repeat nothing of the body except the names of the single keys.
 */
export function parseBody({ json, restated }: Pick<ScannedBody, "json" | "restated">): object {
  const value = parse(json.toString("utf8"));
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ApiError("bad_request", "The request body should be a JSON object.", { detail: "json_not_an_object" });
  // Valid UTF-8 holds no half of a surrogate pair, so only an escape from `\ud800` to `\udfff` can produce one.
  if (json.includes("\\ud") || json.includes("\\uD")) wellFormed(value);
  if (restated.length > 0) keepNumbers(value, parse(withNumbersQuoted(json, restated)));
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidJson("json_syntax");
  }
}

/** Makes the error for a body that is not JSON. The parser's own message would quote the body. */
export function invalidJson(detail: Detail): ApiError {
  return new ApiError("invalid_json", "The request body is not valid JSON.", { detail });
}

function tooBig(how: string, limit: number, unit: string, detail: Detail): ApiError {
  return new ApiError("bad_request", `The request body is ${how} than ${limit} ${unit}.`, { detail });
}

/** Returns the key if it is a single one. */
function noteKey(text: string, singleKeys: readonly string[], missing: Set<string>): string | undefined {
  const key = text.includes("\\") ? unescaped(text) : text;
  if (missing.delete(key)) return key;
  if (!singleKeys.includes(key)) return undefined;
  throw new ApiError("bad_request", `The request body holds the key '${key}' more than once.`, {
    path: [key],
    detail: "json_duplicate_key",
  });
}

function unescaped(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return ""; // the parser will refuse the whole text
  }
}

/**
 * Returns the position of the quote that ends the string whose text continues at `start`, or the length of the text. It
 * alternates between walking and searching: a search is far faster over long text, and far slower where every other
 * byte is a quote.
 */
function endOfString(text: Buffer, start: number): number {
  let at = start;
  while (at < text.length) {
    // Reading beyond the end, even once, makes the engine compile slower code for all texts to come.
    for (const stop = Math.min(at + WALKED_BYTES, text.length); at < stop; at += 1) {
      const byte = text[at];
      if (byte === QUOTE) return at;
      if (byte === BACKSLASH) at += 1;
    }
    const quote = text.indexOf(QUOTE, at);
    if (quote === -1) return text.length;
    let unescaped = quote;
    while (unescaped > at && text[unescaped - 1] === BACKSLASH) unescaped -= 1;
    if ((quote - unescaped) % 2 === 0) return quote;
    at = quote + 1;
  }
  return text.length;
}

function isLetter(byte: number | undefined): boolean {
  return byte !== undefined && byte >= LOWER_A && byte <= LOWER_Z;
}

function isNumberByte(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const isDigit = byte >= ZERO && byte <= NINE;
  return isDigit || byte === POINT || byte === MINUS || byte === PLUS || byte === LOWER_E || byte === UPPER_E;
}

/** Returns whether `JSON.stringify` writes a number differently. Throws `ApiError` for one that is not finite. */
function isRestated(json: Buffer, start: number, end: number): boolean {
  if (end - start > MAX_NUMBER_LENGTH) throw numberTooLarge();
  const text = json.toString("latin1", start, end);
  if (text.length <= SURELY_EXACT_LENGTH && text !== "-0" && /^-?[0-9]*$/.test(text)) return false;
  const number = Number(text);
  if (Math.abs(number) === Number.POSITIVE_INFINITY) throw numberTooLarge();
  return String(number) !== text;
}

function numberTooLarge(): ApiError {
  return new ApiError("bad_request", "The request body holds a number that is too large.", {
    detail: "json_number_not_finite",
  });
}

/** Returns the text with quotation marks around the numbers at `positions`. */
function withNumbersQuoted(json: Buffer, positions: readonly number[]): string {
  const cuts = [...positions, json.length];
  const pieces = cuts.map((cut, at) => json.toString("utf8", cuts[at - 1] ?? 0, cut));
  return pieces.map((piece, at) => (at % 2 === 1 ? `"${piece}"` : piece)).join("");
}

/** The form of a lone half of a surrogate pair: with the `u` flag a pair counts as one character. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Returns `value` with U+FFFD for every lone half of a surrogate pair in its strings; objects and arrays are changed in
 * place. No encoding of a lone half is valid for all readers. Throws `ApiError` `bad_request` if a key holds one.
 */
function wellFormed(value: unknown): unknown {
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
