import { EngineError } from "../../../errors.ts";
import { type JsonFields, parseFields } from "./json-fields.ts";

/* Lists of tokens as bytes of JSON: a prompt has up to a million, which are neither joined nor parsed at once. */

/** The tokens that are written at once, and the bytes that are read: about a millisecond of work. */
const WRITTEN_TOKENS = 32_768;
const READ_BYTES = 262_144;
/** The most bytes of a token of 32 bits, with its comma. */
const MOST_BYTES = 11;
/** The first guess at the bytes of a token. */
const USUAL_BYTES = 6;

const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/** A list of tokens in a body: parts that follow each other, which are not copied. */
export class TokenList {
  readonly #parts: readonly ArrayLike<number>[];

  constructor(...parts: readonly ArrayLike<number>[]) {
    this.#parts = parts;
  }

  *pieces(): Generator<Buffer, void, void> {
    let open = OPEN;
    for (const part of this.#parts)
      for (let from = 0; from < part.length; from += WRITTEN_TOKENS) {
        yield written(part, from, Math.min(part.length, from + WRITTEN_TOKENS), open);
        open = COMMA;
      }
    yield Buffer.from(open === OPEN ? "[]" : "]");
  }
}

/** Writes tokens in decimal, with commas between them and `open` in front. */
function written(tokens: ArrayLike<number>, from: number, to: number, open: number): Buffer {
  const bytes = Buffer.allocUnsafe(MOST_BYTES * (to - from));
  let end = 0;
  for (let at = from; at < to; at += 1) {
    bytes[end] = at === from ? open : COMMA;
    let rest = tokens[at] ?? 0;
    const start = end;
    end += digitsOf(rest);
    for (let place = end; place > start; place -= 1) {
      const tenth = Math.floor(rest / 10);
      bytes[place] = ZERO + rest - 10 * tenth;
      rest = tenth;
    }
    end += 1;
  }
  return bytes.subarray(0, end);
}

function digitsOf(token: number): number {
  let digits = 1;
  for (let bound = 10; token >= bound; bound *= 10) digits += 1;
  return digits;
}

/** A reply with a list of tokens, and its other fields. */
export type TokenReply = { readonly tokens: Uint32Array; readonly fields: JsonFields };

/**
 * Reads the list of tokens under `name` from the JSON text of a reply, in portions that each await `nextSlice`, which may
 * throw to cancel. Throws `EngineError` PROTOCOL_VIOLATION if there is none, or it is empty or has other values.
 */
export async function readTokens(reply: Buffer, name: string, nextSlice: () => Promise<void>): Promise<TokenReply> {
  const open = listAt(reply, name);
  let tokens = new Uint32Array(Math.ceil((reply.length - open) / USUAL_BYTES));
  let count = 0;
  let value = -1;
  let isWhole = false;
  let at = open + 1;
  for (let portion = at + READ_BYTES; ; at += 1) {
    const byte = reply[at];
    if (byte !== undefined && byte >= ZERO && byte <= NINE) value = (value < 0 ? 0 : 10 * value) + byte - ZERO;
    else if (byte === COMMA || byte === CLOSE) {
      if (value < 0 || value > 0xffff_ffff) break;
      if (count === tokens.length) tokens = grown(tokens);
      tokens[count] = value;
      count += 1;
      value = -1;
      isWhole = byte === CLOSE;
      if (isWhole) break;
      if (at < portion) continue;
      portion = at + READ_BYTES;
      await nextSlice();
    } else if (byte === undefined || !isSpace(byte)) break;
  }
  // Without its tokens, the reply is short.
  const rest = Buffer.concat([reply.subarray(0, open + 1), reply.subarray(at)]).toString("utf8");
  const fields = isWhole ? parseFields(rest) : undefined;
  if (!fields) throw new EngineError("PROTOCOL_VIOLATION", "The engine returned no tokens.");
  return { tokens: tokens.subarray(0, count), fields };
}

/** Returns the place of the list under a key, which cannot stand in a string: its quotes would be escaped. */
function listAt(reply: Buffer, name: string): number {
  const key = `"${name}"`;
  for (let from = reply.indexOf(key); from >= 0; from = reply.indexOf(key, from + 1)) {
    let at = from + key.length;
    while (isSpace(reply[at] ?? 0) || reply[at] === 0x3a) at += 1;
    if (reply[at] === OPEN) return at;
  }
  return reply.length;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function grown(tokens: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const more = new Uint32Array(2 * tokens.length + 1);
  more.set(tokens);
  return more;
}
