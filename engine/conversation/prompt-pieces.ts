import type { Span } from "./placeholders.ts";

export type ControlToken = {
  readonly text: string;
  /** Whether the tokenizer drops white space before the token; a text must not be cut there. */
  readonly stripsLeft: boolean;
};

/** A range of a text, in UTF-16 units; `end` is exclusive. */
type Range = { readonly start: number; readonly end: number };

type Occurrence = Range & { readonly token: ControlToken };

/** Spellings that callers must not write: `<|im_end|>` in a user's text must never end the turn. */
export class ControlTokens {
  readonly tokens: readonly ControlToken[];
  /** By its spelling, a token with those that begin it, longest first. */
  readonly #beginning = new Map<string, readonly ControlToken[]>();
  /** Matches the longest spelling at a place; undefined without tokens. */
  readonly #pattern: RegExp | undefined;
  readonly #heads = new Set<string>();
  readonly #tails = new Set<string>();
  readonly #all: string;
  readonly #longest: number;

  constructor(tokens: Iterable<ControlToken>) {
    const kept = [...tokens].filter(({ text }) => text.trim() !== "");
    this.tokens = kept;
    const bySpelling = new Map(kept.map((token) => [token.text, token]));
    for (const { text } of kept) {
      const beginning: ControlToken[] = [];
      for (let length = text.length; length > 0; length--) {
        const token = bySpelling.get(text.slice(0, length));
        if (token) beginning.push(token);
        if (length === text.length) continue;
        this.#heads.add(text.slice(0, length));
        this.#tails.add(text.slice(-length));
      }
      this.#beginning.set(text, beginning);
    }
    this.#pattern = kept.length === 0 ? undefined : new RegExp(patternOf([...bySpelling.keys()]), "g");
    this.#longest = Math.max(0, ...kept.map(({ text }) => text.length));
    this.#all = kept.map(({ text }) => text).join("\n");
  }

  /** Returns all occurrences of spellings, including overlapping ones, by start, the longest first. */
  occurrences(text: string): readonly Occurrence[] {
    const found: Occurrence[] = [];
    const pattern = this.#pattern;
    if (!pattern) return found;
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
      const { index: start } = match;
      for (const token of this.#beginning.get(match[0]) ?? [])
        found.push({ start, end: start + token.text.length, token });
      pattern.lastIndex = start + 1;
    }
    return found;
  }

  /** Returns whether no spelling can result from placing this text among others. */
  isInert(text: string): boolean {
    if (text.length < this.#longest && this.#all.includes(text)) return text === "";
    const reach = Math.min(this.#longest - 1, text.length);
    for (let length = 1; length <= reach; length++) {
      if (this.#heads.has(text.slice(-length)) || this.#tails.has(text.slice(0, length))) return false;
    }
    if (!this.#pattern) return true;
    this.#pattern.lastIndex = 0;
    return !this.#pattern.test(text);
  }
}

/**
 * Returns an expression that matches the longest of some spellings. Common beginnings stand once: vocabularies have
 * thousands of control tokens, and alternatives are tried one after the other.
 */
function patternOf(spellings: readonly string[]): string {
  const byUnit = new Map<string, string[]>();
  let ends = false;
  for (const spelling of spellings) {
    if (spelling === "") ends = true;
    else {
      const rests = byUnit.get(spelling.charAt(0)) ?? [];
      byUnit.set(spelling.charAt(0), rests);
      rests.push(spelling.slice(1));
    }
  }
  if (byUnit.size === 0) return "";
  const branches = [...byUnit].map(([unit, rests]) => escaped(unit) + patternOf(rests));
  return `(?:${branches.join("|")})${ends ? "?" : ""}`;
}

/** Returns the expression for one UTF-16 unit. */
function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

export type PromptPiece = {
  readonly text: string;
  /** Whether spellings of control tokens in the piece are tokenised as these tokens. */
  readonly control: boolean;
};

export type PieceOptions = {
  /** The length beyond which pieces are cut where that does not change the tokens, in UTF-16 units. */
  readonly maxUnits: number;
  readonly cutsAtWords: boolean;
};

/** A text without a safe cut is cut anywhere at this multiple of `maxUnits`: it is no natural language. */
const MAX_STRETCH = 4;

/**
 * Cuts a rendered prompt so that the template's control tokens stay tokens and spellings from callers, cut after their
 * first character, never become one. It is cut before each control token of the template: a later turn repeats most of
 * the pieces, wherever they stand.
 */
export function toPromptPieces(
  spans: readonly Span[],
  tokens: ControlTokens,
  options: PieceOptions,
): readonly PromptPiece[] {
  const text = spans.map((span) => span.text).join("");
  const found = tokens.occurrences(text);
  const forged = overlapping(found, callerRanges(spans));
  const cuts = new Set<number>();
  const literal = new Set<number>();
  for (const { start, end } of forged) {
    const inside = start + String.fromCodePoint(text.codePointAt(start) ?? 0).length;
    if (inside < end) {
      cuts.add(inside);
    } else {
      // A single character cannot be cut: it becomes a piece without control tokens.
      cuts.add(start).add(end);
      literal.add(start);
    }
  }
  for (const cut of safeCuts(found, forged)) cuts.add(cut);
  cuts.add(0).add(text.length);
  const ordered = [...cuts].sort((a, b) => a - b);
  return ordered.flatMap((start, index): readonly PromptPiece[] => {
    const end = ordered[index + 1];
    if (end === undefined) return [];
    if (literal.has(start)) return [{ text: text.slice(start, end), control: false }];
    return shortened(text, { start, end }, options).map((piece) => ({ text: piece, control: true }));
  });
}

/** Returns the starts of the template's tokens. Of nested spellings the outer one is the token, and is not cut. */
function safeCuts(found: readonly Occurrence[], forged: ReadonlySet<Occurrence>): readonly number[] {
  const cuts: number[] = [];
  let end = 0;
  for (const one of found) {
    if (forged.has(one) || one.start < end) continue;
    end = one.end;
    if (!one.token.stripsLeft) cuts.push(one.start);
  }
  return cuts;
}

export function lastUpTo(numbers: ArrayLike<number>, most: number): number | undefined {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] ?? 0) <= most) low = middle + 1;
    else high = middle;
  }
  return numbers[low - 1];
}

function callerRanges(spans: readonly Span[]): readonly Range[] {
  let start = 0;
  return spans.flatMap(({ text, origin }) => {
    const range = { start, end: start + text.length };
    start = range.end;
    return origin === "caller" ? [range] : [];
  });
}

function overlapping<One extends Range>(found: readonly One[], ranges: readonly Range[]): ReadonlySet<One> {
  const result = new Set<One>();
  let at = 0;
  for (const one of found) {
    while (at < ranges.length && (ranges[at]?.end ?? 0) <= one.start) at += 1;
    const next = ranges[at];
    if (next && next.start < one.end) result.add(one);
  }
  return result;
}

/** Returns a range in pieces of about `maxUnits`, cut between words. */
function shortened(text: string, range: Range, { maxUnits, cutsAtWords }: PieceOptions): readonly string[] {
  const pieces: string[] = [];
  let { start } = range;
  while (cutsAtWords && range.end - start > maxUnits) {
    const cut = wordBorder(text, { start, end: range.end }, maxUnits);
    pieces.push(text.slice(start, cut));
    start = cut;
  }
  if (start < range.end) pieces.push(text.slice(start, range.end));
  return pieces;
}

function wordBorder(text: string, { start, end }: Range, near: number): number {
  for (let at = start + near; at > start; at -= 1) if (isWordBorder(text, at)) return at;
  const far = start + near * MAX_STRETCH;
  for (let at = start + near + 1; at < Math.min(end, far); at += 1) if (isWordBorder(text, at)) return at;
  if (end <= far) return end;
  return isLowSurrogate(text.charCodeAt(far)) ? far - 1 : far;
}

/** At a space between letters, or after the last line break of white space that no slash follows. */
function isWordBorder(text: string, at: number): boolean {
  const unit = text[at] ?? "";
  if (unit === " ") {
    if (isLetter(text.charCodeAt(at - 1)) && isLetter(text.charCodeAt(at + 1))) return true;
  }
  if (text[at - 1] !== "\n") return false;
  let visible = at;
  while (text[visible] === " " || text[visible] === "\t") visible += 1;
  const follower = text[visible] ?? "";
  return follower.trim() !== "" && unit !== "/";
}

function isLetter(code: number): boolean {
  return (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
