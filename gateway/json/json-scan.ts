import * as z from "zod";
import { ApiError } from "../errors.ts";
import type { Detail } from "../outcome.ts";
import {
  CUT,
  endOfLetters,
  endOfNumber,
  endOfString,
  endsEscaped,
  isLetter,
  isNumberByte,
  isRestated,
} from "./json-tokens.ts";

/*
 * One pass over the bytes of a JSON text before it is parsed, as parsing is expensive: 16 MiB of `[{},{},…]` block the
 * process for more than a second, and deep nesting breaks every recursive walk that follows. The scan is exact for
 * valid JSON; validity is left to the parser, which stops at the same byte that misleads the scan.
 */

export const jsonLimitsSchema = z
  .strictObject({
    maxDepth: z
      .int()
      .min(1)
      .max(1_000)
      .default(64)
      .describe("The number of objects and arrays within one another, the outermost included, that a body may have."),
    maxNodes: z
      .int()
      .min(1)
      .default(200_000)
      .describe("The number of values of all kinds that a body may hold together; keys do not count."),
  })
  .prefault({})
  .describe("Request bodies that would cost too much to parse are refused with 400.");

/** The bounds on the cost of a JSON text, with their defaults filled in. */
export type JsonLimits = Readonly<z.infer<typeof jsonLimitsSchema>>;

/** The length of a character that is written as `\uXXXX`. */
const ESCAPED_LENGTH = 6;

/**
 * The depth from which values may be passed on as text: values at smaller depths are read field by field. The outermost
 * object that is passed on is the schema in `output_format`.
 */
const OUTERMOST_TEXT_DEPTH = 3;

/** The length up to which a number without an exponent is surely finite; overflow begins at 309 digits. */
const SURELY_FINITE_LENGTH = 300;

/** The length up to which every integer is exact and is written back unchanged. */
const SURELY_EXACT_LENGTH = 15;

/**
 * The largest length of a number, in bytes: real numbers are shorter, and reading a longer one would cost more than its
 * bytes justify.
 */
const MAX_NUMBER_LENGTH = 1000;

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Ends a number at the end of a text. */
const END = Buffer.from(" ");

/** Scans one JSON text, chunk by chunk as it arrives, in time that is linear in its length. */
export class JsonScan {
  readonly #limits: JsonLimits;
  readonly #singleKeys: readonly string[];
  /** The bytes of the longest single key, with each of its characters written as an escape. */
  readonly #longestKey: number;
  /**
   * The open container at each depth, 1 for an object and 0 for an array. Its length is the limit, so the depth is
   * checked before it is written.
   */
  readonly #isObject: Uint8Array;
  readonly #seenKeys = new Set<string>();
  #depth = 0;
  #nodes = 0;
  #keyComes = false;
  /** The token in which the text so far is cut. */
  #inside: "string" | "escape" | "literal" | undefined;
  /** A number or a short key that is cut at the end of the text so far: it is read when its end arrives. */
  #begun: Buffer | undefined;
  #isRestated = false;
  #refusal: unknown;

  /**
   * Begins a scan. `singleKeys` are keys that may occur only once at the top of the text: a proxy in front of the
   * gateway may use the first of two, while the parser takes the last.
   */
  constructor(singleKeys: readonly string[], limits: JsonLimits) {
    this.#limits = limits;
    this.#singleKeys = singleKeys;
    this.#longestKey = ESCAPED_LENGTH * Math.max(0, ...singleKeys.map((key) => key.length));
    this.#isObject = new Uint8Array(limits.maxDepth + 1);
  }

  /** The number of values of all kinds so far; keys do not count. */
  get nodes(): number {
    return this.#nodes;
  }

  /**
   * Whether the text has a number that `JSON.stringify` writes differently, such as `1.0` or `9007199254740993`, at a
   * depth from which values may be passed on as text.
   */
  get isRestated(): boolean {
    return this.#isRestated;
  }

  /** Scans the next chunk. It never throws: after a fault, later chunks are ignored. */
  feed(chunk: Buffer): void {
    if (this.#refusal !== undefined || chunk.length === 0) return;
    try {
      this.#scan(chunk);
    } catch (error) {
      this.#refusal = error;
    }
  }

  /**
   * Ends the text after the last chunk. Throws `ApiError` `bad_request` for a text over the limits, for a number that
   * is not finite (`1e999`), and for the second of a single key at the top.
   */
  end(): void {
    this.feed(END);
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  #scan(chunk: Buffer): void {
    const text = this.#begun ? Buffer.concat([this.#begun, chunk]) : chunk;
    this.#begun = undefined;
    for (let at = this.#endOfInside(text); at < text.length; at += 1) {
      const byte = text[at];
      if (byte === undefined || byte <= SPACE) continue;
      if (byte === QUOTE) at = this.#string(text, at);
      else if (byte === COMMA) this.#keyComes = this.#isObject[this.#depth] === 1;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) this.#open(byte === OPEN_BRACE);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) this.#close();
      else if (isLetter(byte)) at = this.#literal(text, at);
      else if (isNumberByte(byte)) at = this.#number(text, at);
      if (this.#nodes > this.#limits.maxNodes)
        throw tooBig("made of more", this.#limits.maxNodes, "values", "json_nodes");
    }
  }

  /** Returns the position where the scan continues: the end of the token in which the previous chunk was cut. */
  #endOfInside(text: Buffer): number {
    if (this.#inside === undefined) return 0;
    if (this.#inside !== "literal") return this.#restOfString(text, this.#inside === "escape" ? 1 : 0) + 1;
    const end = endOfLetters(text, 0);
    if (end < text.length) this.#inside = undefined;
    return end;
  }

  /** Returns the position of the last byte, up to the end of `text`, of the string that continues at `start`. */
  #restOfString(text: Buffer, start: number): number {
    const end = endOfString(text, start);
    if (end !== CUT) this.#inside = undefined;
    else this.#inside = endsEscaped(text, start, text.length) ? "escape" : "string";
    return end === CUT ? text.length : end;
  }

  /** Scans the string that begins at `start`, a key or a value. Returns the position of its last byte in `text`. */
  #string(text: Buffer, start: number): number {
    const isKey = this.#keyComes;
    const end = this.#restOfString(text, start + 1);
    if (this.#inside !== undefined && isKey && end - (start + 1) <= this.#longestKey) {
      this.#inside = undefined;
      this.#begun = text.subarray(start);
      return end;
    }
    this.#keyComes = false;
    if (!isKey) this.#nodes += 1;
    else if (this.#inside === undefined) this.#key(text, start + 1, end);
    return end;
  }

  /** Scans the literal that begins at `start`. Returns the position of its last byte in `text`. */
  #literal(text: Buffer, start: number): number {
    this.#nodes += 1;
    const end = endOfLetters(text, start);
    if (end === text.length) this.#inside = "literal";
    return end - 1;
  }

  /** Scans the number that begins at `start`. Returns the position of its last byte in `text`. */
  #number(text: Buffer, start: number): number {
    const end = endOfNumber(text, start);
    if (end - start > MAX_NUMBER_LENGTH) throw numberTooLarge();
    if (end === text.length) this.#begun = text.subarray(start);
    else {
      this.#nodes += 1;
      this.#judgeNumber(text.toString("latin1", start, end));
    }
    return end - 1;
  }

  #judgeNumber(text: string): void {
    const isInteger = /^-?[0-9]*$/.test(text);
    if (isInteger && text.length <= SURELY_EXACT_LENGTH && text !== "-0") return;
    if ((!isInteger || text.length > SURELY_FINITE_LENGTH) && Math.abs(Number(text)) === Number.POSITIVE_INFINITY)
      throw numberTooLarge();
    if (!this.#isRestated && this.#depth >= OUTERMOST_TEXT_DEPTH) this.#isRestated = isRestated(text);
  }

  #key(text: Buffer, start: number, end: number): void {
    if (this.#depth === 1 && end - start <= this.#longestKey) this.#noteKey(keyIn(text, start, end));
  }

  /** Notes a key of the top level. Throws for the second one of a single key. */
  #noteKey(key: string | undefined): void {
    if (key === undefined || !this.#singleKeys.includes(key)) return;
    if (this.#seenKeys.has(key))
      throw new ApiError("bad_request", `The request body holds the key '${key}' more than once.`, {
        path: [key],
        detail: "json_duplicate_key",
      });
    this.#seenKeys.add(key);
  }

  #open(isObject: boolean): void {
    this.#nodes += 1;
    this.#depth += 1;
    if (this.#depth > this.#limits.maxDepth)
      throw tooBig("nested more deeply", this.#limits.maxDepth, "levels", "json_depth");
    this.#keyComes = isObject;
    this.#isObject[this.#depth] = isObject ? 1 : 0;
  }

  #close(): void {
    this.#depth = Math.max(0, this.#depth - 1);
    this.#keyComes = false;
  }
}

/** Returns a key as the parser will read it; undefined for one that the parser will refuse. */
function keyIn(body: Buffer, start: number, end: number): string | undefined {
  const text = body.toString("latin1", start, end);
  return text.includes("\\") ? withoutEscapes(text) : text;
}

function withoutEscapes(text: string): string | undefined {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return undefined; // the parser will refuse the whole text
  }
}

function tooBig(how: string, limit: number, unit: string, detail: Detail): ApiError {
  return new ApiError("bad_request", `The request body is ${how} than ${limit} ${unit}.`, { detail });
}

function numberTooLarge(): ApiError {
  return new ApiError("bad_request", "The request body holds a number that is too large.", {
    detail: "json_number_not_finite",
  });
}
