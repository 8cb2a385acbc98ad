import { ControlTokens } from "../../../conversation/control-tokens.ts";

/** The character that breaks a mark: nobody sees it, it is no white space, and it joins the words beside it. */
const JOINER = "\u2060";

/**
 * Keeps callers from writing the control tokens of a model beside an engine that takes texts: such an engine makes the
 * token of each mark (`<|im_end|>`), whoever wrote it. A mark in a caller's text goes to the engine with an invisible
 * character behind its first one, so that the model reads the characters and no token; where the model repeats it, the
 * answer has the mark as the caller wrote it. What is sent again therefore has the same tokens as what was generated.
 */
export class SpelledMarks {
  /** No marks: all texts stay as they are. */
  static readonly none = new SpelledMarks([]);

  readonly #tokens: ControlTokens;
  /** By the first character of marks: what follows the invisible one where a mark was broken. */
  readonly #tails = new Map<string, string[]>();
  readonly #longest: number;

  /** Takes the spellings of the model's control tokens. Those of one character mark nothing and cannot be broken. */
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

  /** Returns whether a mark stands in the text. */
  isSpelledIn(text: string): boolean {
    return this.#tokens.occurrences(text).length > 0;
  }

  /** Returns a text with all marks broken. */
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

  /** Returns the text of a JSON value with all marks broken, those too that escapes spell; all else stays as it was. */
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

  /** Returns what makes marks whole again in a text that arrives in pieces. */
  mending(): MarkMending {
    return new MarkMending(this.#tails, this.#longest);
  }

  #brokenString(literal: string): string {
    if (!literal.includes("\\")) return this.broken(literal);
    let value: unknown;
    try {
      value = JSON.parse(literal);
    } catch {
      // No JSON, which an engine takes as text if at all.
      return this.broken(literal);
    }
    const text = String(value);
    const broken = this.broken(text);
    return broken === text ? literal : JSON.stringify(broken);
  }
}

/** Makes broken marks whole in one text that arrives in pieces. Nothing is held but behind an invisible character. */
export class MarkMending {
  readonly #tails: ReadonlyMap<string, readonly string[]>;
  readonly #longest: number;
  /** What went out last: two units at least, where there were as many. */
  #before = "";
  #held = "";

  /** Begins a text; `longest` is the length of the longest of the tails. */
  constructor(tails: ReadonlyMap<string, readonly string[]>, longest: number) {
    this.#tails = tails;
    this.#longest = longest;
  }

  /** Takes the next piece; returns the text that can go out. */
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

  /** Ends the text: returns what was held. The next piece begins another one. */
  end(): string {
    const rest = this.#held;
    this.#held = "";
    this.#before = "";
    return rest;
  }

  #sent(out: string): string {
    // Nothing is cut off here: this is on the path of every delta, and few come before an invisible character.
    this.#before = out.length > 1 ? out : (this.#before + out).slice(-2);
    return out;
  }
}

function firstCharacter(text: string): string {
  return String.fromCodePoint(text.codePointAt(0) ?? 0);
}

/** Returns the place behind the JSON string that begins at `start`; undefined where it does not end. */
function endOfString(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length; at += 1) {
    const unit = text[at];
    if (unit === "\\") at += 1;
    else if (unit === '"') return at + 1;
  }
  return undefined;
}
