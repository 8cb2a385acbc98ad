import { JsonScanner } from "../../../tool-calls/json-scanner.ts";
import { TokenList } from "./token-list.ts";

/** JSON text that is sent unchanged: serializing it again would change bytes, and so break prefix caches. */
export class RawJson {
  readonly text: string;

  /** Wraps one complete value: see `rawObject`. */
  constructor(text: string) {
    this.text = text;
  }
}

/** The length of pieces of long texts, in UTF-16 units, and of images, in groups of three bytes. */
const SLICE = 65_536;
/** The fixed cost of a piece, in UTF-16 units of text. */
const PIECE_UNITS = 64;
/** The text that is written at once, in UTF-16 units: about three milliseconds of work. */
const PORTION_UNITS = 1_000_000;

/** An image in a body: a data URL, whose text is created only when it is written. */
export class DataUrl {
  readonly #mimeType: string;
  readonly #bytes: Uint8Array;

  constructor(mimeType: string, bytes: Uint8Array) {
    this.#mimeType = mimeType;
    this.#bytes = bytes;
  }

  *pieces(): Generator<string, void, void> {
    yield JSON.stringify(`data:${this.#mimeType};base64,`).slice(0, -1);
    const bytes = Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength);
    // Multiples of three bytes, so that only the last piece is padded.
    for (let from = 0; from < bytes.length; from += 3 * SLICE)
      yield bytes.subarray(from, from + 3 * SLICE).toString("base64");
    yield '"';
  }
}

/** The values that `toJsonText` can write. A key whose value is `undefined` is omitted. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | RawJson
  | DataUrl
  | TokenList
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** Returns the text of a JSON object, unchanged; undefined if it is not one. */
export function rawObject(text: string): RawJson | undefined {
  const scanner = new JsonScanner({ root: "object" });
  const { consumed, state } = scanner.push(text);
  return state === "complete" && text.slice(consumed).trim() === "" ? new RawJson(text) : undefined;
}

/** Writes the JSON text of a value, with the texts of `RawJson` unchanged. Undefined is `null` in a list. */
export function toJsonText(value: JsonValue): string {
  return Array.from(pieces(value), String).join("");
}

/**
 * Writes a value as `toJsonText` does, in UTF-8. Awaits `nextSlice` after each portion of some milliseconds, which may throw
 * to cancel: a request may hold tens of megabytes of text and images.
 */
export async function toJsonBytes(value: JsonValue, nextSlice: () => Promise<void>): Promise<readonly Buffer[]> {
  const bytes: Buffer[] = [];
  let portion: string[] = [];
  let units = 0;
  for (const piece of pieces(value)) {
    if (typeof piece !== "string") {
      bytes.push(Buffer.from(portion.join("")), piece);
      portion = [];
    } else portion.push(piece);
    // Writing many small values costs more than their text.
    units += piece.length + PIECE_UNITS;
    if (units < PORTION_UNITS) continue;
    bytes.push(Buffer.from(portion.join("")));
    portion = [];
    units = 0;
    await nextSlice();
  }
  bytes.push(Buffer.from(portion.join("")));
  return bytes;
}

function* pieces(value: JsonValue): Generator<string | Buffer, void, void> {
  if (value === undefined || value === null) yield "null";
  else if (value instanceof RawJson) yield value.text;
  else if (value instanceof DataUrl || value instanceof TokenList) yield* value.pieces();
  else if (typeof value === "string") yield* quoted(value);
  else if (typeof value !== "object") yield JSON.stringify(value);
  else if (isList(value)) {
    yield "[";
    for (const [at, item] of value.entries()) {
      if (at > 0) yield ",";
      yield* pieces(item);
    }
    yield "]";
  } else {
    let before = "{";
    for (const [key, member] of Object.entries(value)) {
      if (member === undefined) continue;
      yield `${before}${JSON.stringify(key)}:`;
      before = ",";
      yield* pieces(member);
    }
    yield before === "{" ? "{}" : "}";
  }
}

function* quoted(text: string): Generator<string, void, void> {
  if (text.length <= SLICE) {
    yield JSON.stringify(text);
    return;
  }
  yield '"';
  for (let from = 0; from < text.length; ) {
    // Surrogate pairs stay together: each half alone would be escaped.
    const isHalf = isHighSurrogate(text.charCodeAt(from + SLICE - 1));
    const to = from + SLICE + (isHalf ? 1 : 0);
    yield JSON.stringify(text.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield '"';
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isList(value: object): value is readonly JsonValue[] {
  return Array.isArray(value);
}
