import { type ArgumentPath, ITEM, type JsonType } from "./argument-types.ts";
import { inString, jsonOf } from "./argument-writer.ts";
import { ESCAPED } from "./json-scanner.ts";

const MAX_HELD = 64 * 1024;

type Level = { readonly kind: "object" | "list"; key: string };

type Position =
  | { readonly at: "between" | "text" }
  | { readonly at: "key"; readonly raw: string }
  | { readonly at: "held"; readonly raw: string; readonly types: ReadonlySet<JsonType> };

const BETWEEN: Position = { at: "between" };
const TEXT: Position = { at: "text" };

/**
 * Repairs a JSON object in pieces: quotation marks are removed from values that may not be strings, control characters
 * and backslashes without a valid escape are escaped.
 */
export class ArgumentMender {
  readonly #typesAt: (path: ArgumentPath) => ReadonlySet<JsonType> | undefined;
  readonly #levels: Level[] = [];
  #position: Position = BETWEEN;
  #expectsKey = false;
  #isEscaped = false;

  constructor(typesAt: (path: ArgumentPath) => ReadonlySet<JsonType> | undefined) {
    this.#typesAt = typesAt;
  }

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
