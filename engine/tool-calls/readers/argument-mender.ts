import { type ArgumentPath, ITEM, type JsonType } from "./argument-types.ts";
import { inString, jsonOf } from "./argument-writer.ts";
import { ESCAPED } from "./json-scanner.ts";

/** The maximum length of a held string in UTF-16 units; a longer one is not changed. */
const MAX_HELD = 64 * 1024;

/** An open object or list; `key` is the last key of an object. */
type Level = { readonly kind: "object" | "list"; key: string };

type Position =
  | { readonly at: "between" | "text" }
  | { readonly at: "key"; readonly raw: string }
  /** In a string where the schema allows only values of `types`, no strings. */
  | { readonly at: "held"; readonly raw: string; readonly types: ReadonlySet<JsonType> };

const BETWEEN: Position = { at: "between" };
const TEXT: Position = { at: "text" };

/**
 * Repairs arguments that a model writes as one JSON object, in any pieces. Quotation marks are removed from values that
 * may not be strings: `"3"` becomes 3 if the schema requires a number and the content is JSON of an allowed type. In
 * strings, control characters and backslashes without a valid escape, as in `"\\d"`, are escaped. The rest is
 * unchanged.
 */
export class ArgumentMender {
  readonly #typesAt: (path: ArgumentPath) => ReadonlySet<JsonType> | undefined;
  readonly #levels: Level[] = [];
  #position: Position = BETWEEN;
  #expectsKey = false;
  #isEscaped = false;

  /** `typesAt` returns the types of the value at a path; undefined for any. */
  constructor(typesAt: (path: ArgumentPath) => ReadonlySet<JsonType> | undefined) {
    this.#typesAt = typesAt;
  }

  /** Takes the next piece of JSON and returns the text to send. */
  push(text: string): string {
    let mended = "";
    let at = 0;
    while (at < text.length) {
      if (this.#position.at !== "between") {
        const { piece, ...end } = this.#readString(text, at);
        mended += this.#take(piece, end.isFound);
        at = end.at;
        continue;
      }
      const end = this.#passSigns(text, at);
      mended += text.slice(at, end.at);
      at = end.at;
      if (!end.isFound) continue;
      mended += this.#startString();
      at += 1;
    }
    return mended;
  }

  /** Returns the held part of a string: the arguments end inside it. */
  flush(): string {
    const position = this.#position;
    if (position.at !== "held") return "";
    this.#position = TEXT;
    return position.raw;
  }

  #passSigns(text: string, from: number): { readonly at: number; readonly isFound: boolean } {
    for (let at = from; at < text.length; at += 1) {
      const char = text.charAt(at);
      if (char === '"') return { at, isFound: true };
      if (char === "{" || char === "[") this.#levels.push({ kind: char === "{" ? "object" : "list", key: "" });
      else if (char === "}" || char === "]") this.#levels.pop();
      if (char === "{" || char === ",") this.#expectsKey = this.#levels.at(-1)?.kind === "object";
      else if (char === ":" || char === "[") this.#expectsKey = false;
    }
    return { at: text.length, isFound: false };
  }

  /** Returns the end of the string (after its quotation mark) and its repaired text in this piece. */
  #readString(text: string, from: number): { readonly at: number; readonly isFound: boolean; readonly piece: string } {
    let piece = "";
    let taken = from;
    for (let at = from; at < text.length; at += 1) {
      const char = text.charAt(at);
      const isEscaped = this.#isEscaped;
      if (!isEscaped && char !== '"' && char !== "\\" && char >= " ") continue;
      if (char === '"' && !isEscaped) return { at: at + 1, isFound: true, piece: piece + text.slice(taken, at + 1) };
      this.#isEscaped = !isEscaped && char === "\\";
      const isIdle = isEscaped && char !== "u" && !ESCAPED.includes(char);
      if (!isIdle && char >= " ") continue;
      piece += text.slice(taken, at) + (isIdle ? "\\" : "") + inString(char);
      taken = at + 1;
    }
    return { at: text.length, isFound: false, piece: piece + text.slice(taken) };
  }

  /** Begins a string, and returns the text to send for its quotation mark. */
  #startString(): string {
    if (this.#expectsKey) {
      this.#position = { at: "key", raw: '"' };
      return '"';
    }
    const types = this.#typesAt(this.#levels.map(({ kind, key }) => (kind === "object" ? key : ITEM)));
    const isHeld = types !== undefined && types.size > 0 && !types.has("string");
    this.#position = isHeld ? { at: "held", raw: '"', types } : TEXT;
    return isHeld ? "" : '"';
  }

  /** Takes a piece of the string (`isEnd` for the last) and returns the text to send. */
  #take(piece: string, isEnd: boolean): string {
    const position = this.#position;
    const level = this.#levels.at(-1);
    const raw = "raw" in position ? position.raw + piece : "";
    if (isEnd) this.#position = BETWEEN;
    else if (position.at === "held") this.#position = raw.length > MAX_HELD ? TEXT : { ...position, raw };
    else if (position.at === "key") this.#position = { at: "key", raw };
    if (position.at !== "held") {
      if (position.at === "key" && isEnd && level !== undefined) level.key = String(JSON.parse(raw));
      return piece;
    }
    if (isEnd) return jsonOf(raw, position.types);
    return raw.length > MAX_HELD ? raw : "";
  }
}
