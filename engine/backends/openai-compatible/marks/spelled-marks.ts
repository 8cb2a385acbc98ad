import { ControlTokens } from "../../../conversation/prompt-pieces.ts";
import { JOINER } from "../../../tool-calls/mark-spellings.ts";

/**
 * Prevents callers from writing special tokens of a model to an engine that takes text: such an engine converts each
 * spelling (`<|im_end|>`) to the token, regardless of its author. A spelling in a caller's text is sent with an
 * invisible character after its first one, so that the model reads characters and no token. If the model repeats it,
 * the answer contains the spelling as the caller wrote it, so that a repeated text has the tokens that were generated.
 */
export class SpelledMarks {
  static readonly none = new SpelledMarks([]);

  readonly #tokens: ControlTokens;
  /** By the first character of spellings: the text after the invisible character of a broken spelling. */
  readonly #tails = new Map<string, string[]>();
  readonly #longest: number;

  /** A spelling of one character cannot be broken, and is ignored. */
  constructor(spellings: Iterable<string>) {
    const marks = [...spellings].filter((mark) => [...mark].length > 1);
    this.#tokens = new ControlTokens(marks.map((text) => ({ text, stripsLeft: false })));
    let longest = 0;
    for (const { text } of this.#tokens.tokens) {
      const head = firstCharacter(text);
      const tails = this.#tails.get(head) ?? [];
      for (const form of new Set([text, JSON.stringify(text).slice(1, -1)])) {
        const tail = this.broken(form).slice(head.length).replace(JOINER, "");
        tails.push(tail);
        longest = Math.max(longest, tail.length);
      }
      this.#tails.set(head, tails);
    }
    this.#longest = longest;
  }

  isSpelledIn(text: string): boolean {
    return this.#tokens.occurrences(text).length > 0;
  }

  broken(text: string): string {
    const found = this.#tokens.occurrences(text);
    if (found.length === 0) return text;
    let result = "";
    let from = 0;
    for (const { start } of found) {
      const cut = start + firstCharacter(text.slice(start, start + 2)).length;
      if (cut === from) continue;
      result += text.slice(from, cut) + JOINER;
      from = cut;
    }
    return result + text.slice(from);
  }

  /** Returns the text of a JSON value with all spellings broken, including escaped ones; the rest is unchanged. */
  brokenJson(text: string): string {
    let result = "";
    let from = 0;
    for (let start = text.indexOf('"'); start >= 0; start = text.indexOf('"', from)) {
      const end = endOfString(text, start);
      if (end === undefined) break;
      result += this.broken(text.slice(from, start)) + this.#brokenString(text.slice(start, end));
      from = end;
    }
    return result + this.broken(text.slice(from));
  }

  /** Returns a filter that restores broken spellings in a text that arrives in pieces. */
  mending(): MarkMending {
    return new MarkMending(this.#tails, this.#longest);
  }

  #brokenString(literal: string): string {
    if (!literal.includes("\\")) return this.broken(literal);
    let value: unknown;
    try {
      value = JSON.parse(literal);
    } catch {
      // Invalid JSON, which an engine treats as text if it accepts it.
      return this.broken(literal);
    }
    const text = String(value);
    const broken = this.broken(text);
    return broken === text ? literal : JSON.stringify(broken);
  }
}

/** Restores broken spellings in a text that arrives in pieces. Text is held only after an invisible character. */
export class MarkMending {
  readonly #tails: ReadonlyMap<string, readonly string[]>;
  readonly #longest: number;
  /** The last output: at least two units, if there were as many. */
  #before = "";
  #held = "";

  constructor(tails: ReadonlyMap<string, readonly string[]>, longest: number) {
    this.#tails = tails;
    this.#longest = longest;
  }

  /** Takes the next piece; returns the text that can be sent. */
  push(piece: string): string {
    const text = this.#held + piece;
    this.#held = "";
    let out = "";
    let from = 0;
    for (let at = text.indexOf(JOINER); at >= 0; at = text.indexOf(JOINER, from)) {
      out += text.slice(from, at);
      const head = [...(this.#before + out).slice(-2)].at(-1) ?? "";
      const follows = text.slice(at + 1, at + 1 + this.#longest);
      const tails = this.#tails.get(head) ?? [];
      from = at + 1;
      if (tails.some((tail) => follows.startsWith(tail))) continue;
      if (tails.some((tail) => tail.startsWith(follows))) {
        this.#held = text.slice(at);
        return this.#sent(out);
      }
      out += JOINER;
    }
    return this.#sent(out + text.slice(from));
  }

  /** Ends the text: returns the held rest. The next piece begins another text. */
  end(): string {
    const rest = this.#held;
    this.#held = "";
    this.#before = "";
    return rest;
  }

  #sent(out: string): string {
    // Not truncated: this is on the path of every delta, and invisible characters are rare.
    this.#before = out.length > 1 ? out : (this.#before + out).slice(-2);
    return out;
  }
}

function firstCharacter(text: string): string {
  return String.fromCodePoint(text.codePointAt(0) ?? 0);
}

/** Returns the position after the JSON string that begins at `start`; undefined if it does not end. */
function endOfString(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at += 1) {
    const unit = text[at];
    if (unit === "\\") at += 1;
    else if (unit === '"') return at + 1;
  }
  return undefined;
}
