import { isUtf8 } from "node:buffer";

/*
 * The tags of the fields of a message of deltas, in the bytes of the contract: GenerateResponse.events and .tokens,
 * Event.block_delta, BlockDelta.index and .text.
 */
const EVENTS = 0x0a;
const TOKENS = 0x12;
const BLOCK_DELTA = 0x1a;
const INDEX = 0x08;
const TEXT = 0x12;

const NOTHING = Buffer.alloc(0);
const NO_TEXTS: readonly string[] = [];
const NO_TOKENS: readonly number[] = [];

/** The most bytes of a varint read here: five hold any number below 2^32. */
const MAX_VARINT_BYTES = 5;

export type Deltas = {
  readonly texts: readonly string[];
  readonly tokens: readonly number[];
};

/**
 * Reads messages that only continue the open block, directly from their bytes: nearly all messages of an answer are of
 * this kind, and no object of the contract is allocated for them. Any message of another shape is left to the decoder,
 * so that the reader need not cover the whole contract.
 */
export class DeltaReader implements Deltas {
  texts: readonly string[] = NO_TEXTS;
  tokens: readonly number[] = NO_TOKENS;
  #bytes: Buffer = NOTHING;
  #at = 0;

  /**
   * Reads a whole message, the bytes from `from` to before `end`. Returns whether it consists of deltas of the block
   * `index`, and optionally tokens behind them; if so, `texts` and `tokens` are valid until the next call.
   */
  read(bytes: Buffer, from: number, end: number, index: number): boolean {
    this.#bytes = bytes;
    this.#at = from;
    const isWhole = this.#deltas(index, end);
    // The buffer received with it would be retained until the stream's next message.
    this.#bytes = NOTHING;
    return isWhole;
  }

  #deltas(index: number, end: number): boolean {
    this.tokens = NO_TOKENS;
    // A literal allocates exactly its elements; a push to an empty array allocates seventeen.
    let texts: string[] | undefined;
    while (this.#at < end && this.#bytes[this.#at] === EVENTS) {
      this.#at += 1;
      const text = this.#event(index, end);
      if (text === undefined) return false;
      if (texts) texts.push(text);
      else texts = [text];
    }
    this.texts = texts ?? NO_TEXTS;
    return texts !== undefined && (this.#at === end || this.#readTokens(end));
  }

  /** Reads one event behind its tag. Returns its text; undefined where it is anything but a delta of the block. */
  #event(index: number, end: number): string | undefined {
    const eventEnd = this.#length(end);
    if (eventEnd < 0 || this.#bytes[this.#at] !== BLOCK_DELTA) return undefined;
    this.#at += 1;
    if (this.#length(eventEnd) !== eventEnd) return undefined;
    // An index of 0 is omitted by most encoders and written by some.
    let named = 0;
    if (this.#bytes[this.#at] === INDEX) {
      this.#at += 1;
      named = this.#varint(eventEnd);
    }
    if (named !== index || this.#bytes[this.#at] !== TEXT) return undefined;
    this.#at += 1;
    return this.#length(eventEnd) === eventEnd ? this.#text(eventEnd) : undefined;
  }

  /** Reads the text up to `end`. Returns undefined where it is empty or not UTF-8. */
  #text(end: number): string | undefined {
    const bytes = this.#bytes;
    const start = this.#at;
    this.#at = end;
    if (start === end) return undefined;
    for (let at = start; at < end; at += 1)
      if ((bytes[at] ?? 0) > 0x7f)
        return isUtf8(bytes.subarray(start, end)) ? bytes.toString("utf8", start, end) : undefined;
    return bytes.toString("latin1", start, end);
  }

  /** Reads the packed tokens, which must be the last field of the message. */
  #readTokens(end: number): boolean {
    if (this.#bytes[this.#at] !== TOKENS) return false;
    this.#at += 1;
    if (this.#length(end) !== end) return false;
    let tokens: number[] | undefined;
    while (this.#at < end) {
      const token = this.#varint(end);
      if (token < 0) return false;
      if (tokens) tokens.push(token);
      else tokens = [token];
    }
    this.tokens = tokens ?? NO_TOKENS;
    return true;
  }

  #length(end: number): number {
    const length = this.#varint(end);
    return length < 0 || this.#at + length > end ? -1 : this.#at + length;
  }

  /** Reads a number below 2^32. Returns -1 where there is none before `end`. */
  #varint(end: number): number {
    const first = this.#bytes[this.#at] ?? 0;
    if (first < 0x80 && this.#at < end) {
      this.#at += 1;
      return first;
    }
    let value = 0;
    let factor = 1;
    for (let count = 0; count < MAX_VARINT_BYTES && this.#at < end; count += 1) {
      const byte = this.#bytes[this.#at] ?? 0;
      this.#at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value <= 0xffff_ffff ? value : -1;
      factor *= 0x80;
    }
    return -1;
  }
}
