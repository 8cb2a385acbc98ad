import { BREAK } from "../../../deploy/runtime/contract/broken-arguments.ts";
import { type JsonObject, parseArguments } from "../../json/json-text.ts";

/*
 * A `custom` tool takes free text. Towards the engine it is a function with one string, `input`; of that function's
 * arguments the caller gets the string alone, decoded as it comes.
 */

/** `pattern` is what the whole text has to match, where engines can enforce it. */
export function inputSchema(pattern: string | undefined): JsonObject {
  const input = { type: "string", description: "The text for the tool, as it is.", ...(pattern && { pattern }) };
  return { type: "object", properties: { input }, required: ["input"], additionalProperties: false };
}

/** Returns the arguments of an earlier call, spaced as most models write them. */
export function inputArguments(input: string): string {
  return `{"input": ${JSON.stringify(input)}}`;
}

/** The arguments up to the text; bounded, so that it is found however the arguments are cut. */
const BEGINNING = /^\s{0,32}\{\s{0,32}"input"\s{0,32}:\s{0,32}"/;
const MAX_BEGINNING = 140;

/** Text, the quotation mark behind it, a surrogate pair, another escape sequence, or a backslash of none. */
const TOKEN = /[^"\\]+|"|\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\([^u])|\\/giy;

/** An escape sequence that may not be whole, up to the first half of a surrogate pair. */
const UNFINISHED = /^\\(?:u[0-9a-f]{0,3})?$|^\\ud[89ab][0-9a-f]{2}(?:\\(?:u[0-9a-f]{0,3})?)?$/i;
const MAX_UNFINISHED = 11;

const SHORT: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/**
 * Takes the text out of the arguments of one call, in pieces that may be cut anywhere. Arguments of another form, as
 * models without a grammar may write them, become the text when they are whole: their `input`, else all of them.
 */
export class CustomInput {
  #at: "beginning" | "text" | "other" | "end" = "beginning";
  /** The arguments that are not read yet. */
  #held = "";

  /** Returns the text of the next piece. */
  push(piece: string): string {
    if (this.#at === "end") return "";
    this.#held += piece;
    if (this.#at === "beginning") this.#begin();
    return this.#at === "text" ? this.#read() : "";
  }

  /** Returns the text that was held back; `complete`: whether the arguments are whole. */
  end(complete: boolean): string {
    const held = this.#held;
    const isEnded = complete || held.includes(BREAK);
    const isOther = this.#at === "other" || (this.#at === "beginning" && isEnded);
    this.#held = "";
    this.#at = "end";
    if (!isOther) return "";
    const input = parseArguments(held)?.input;
    // The text goes out as UTF-8, where halves of surrogate pairs cannot stand.
    return typeof input === "string" ? Buffer.from(input).toString() : held;
  }

  #begin(): void {
    const beginning = BEGINNING.exec(this.#held)?.[0];
    if (beginning !== undefined) {
      this.#held = this.#held.slice(beginning.length);
      this.#at = "text";
    } else if (this.#held.length > MAX_BEGINNING) this.#at = "other";
  }

  #read(): string {
    const held = this.#held;
    let text = "";
    let at = 0;
    for (; at < held.length && this.#at === "text"; at = TOKEN.lastIndex) {
      if (held[at] === "\\" && held.length - at <= MAX_UNFINISHED && UNFINISHED.test(held.slice(at))) break;
      TOKEN.lastIndex = at;
      const [token = "", high, low, code, short] = TOKEN.exec(held) ?? [];
      if (token === '"') this.#at = "end";
      else if (high && low) text += String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16));
      else if (code) text += characterOf(Number.parseInt(code, 16));
      else text += short === undefined ? token : (SHORT[short] ?? short);
    }
    this.#held = held.slice(at);
    return text;
  }
}

function characterOf(code: number): string {
  return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : String.fromCharCode(code);
}

/** Returns the text of a call that has ended; `complete`: whether the arguments are whole. */
export function customInput(argumentsJson: string, complete: boolean): string {
  const input = new CustomInput();
  return input.push(argumentsJson) + input.end(complete);
}
