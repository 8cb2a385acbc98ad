import type { ControlTokens, Range } from "./control-tokens.ts";
import type { Span } from "./placeholders.ts";

export type PromptPiece = {
  readonly text: string;
  /** Whether spellings of control tokens in the piece are tokenised as these tokens. */
  readonly control: boolean;
};

export type PieceOptions = {
  /** The length beyond which pieces are cut where that does not change the tokens, in UTF-16 units. */
  readonly maxUnits: number;
  /** Whether pieces may be cut between words, where tokenizers like GPT-4's split. */
  readonly cutsAtWords: boolean;
};

/** A text without a safe cut is cut anywhere at this multiple of `maxUnits`: it is no natural language. */
const MAX_STRETCH = 4;

/**
 * Cuts a rendered prompt so that the template's control tokens stay tokens and spellings from callers, cut after their
 * first character, never become one. It is also cut at the last control token at or before each of `places`.
 */
export function toPromptPieces(
  spans: readonly Span[],
  tokens: ControlTokens,
  options: PieceOptions,
  places: readonly number[] = [],
): readonly PromptPiece[] {
  const text = spans.map((span) => span.text).join("");
  const found = tokens.occurrences(text);
  const forged = overlapping(found, callerRanges(spans));
  const cuts = new Set([0, text.length]);
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
  const harmless = found.flatMap((one) => (forged.has(one) || one.token.stripsLeft ? [] : [one.start]));
  for (const place of places) {
    const before = place <= text.length ? lastUpTo(harmless, place) : undefined;
    if (before !== undefined) cuts.add(before);
  }
  const ordered = [...cuts].sort((a, b) => a - b);
  return ordered.flatMap((start, index): readonly PromptPiece[] => {
    const end = ordered[index + 1];
    if (end === undefined) return [];
    if (literal.has(start)) return [{ text: text.slice(start, end), control: false }];
    return shortened(text, { start, end }, harmless, options).map((piece) => ({ text: piece, control: true }));
  });
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

/** Returns a range in pieces of about `maxUnits`, cut at control tokens or, if there are none, between words. */
function shortened(
  text: string,
  range: Range,
  harmless: readonly number[],
  { maxUnits, cutsAtWords }: PieceOptions,
): readonly string[] {
  const pieces: string[] = [];
  let start = range.start;
  let next = 0;
  while (range.end - start > maxUnits) {
    let cut: number | undefined;
    for (; (harmless[next] ?? range.end) <= start + maxUnits; next += 1) {
      if ((harmless[next] ?? 0) > start) cut = harmless[next];
    }
    if (cut === undefined) {
      const end = Math.min(harmless[next] ?? range.end, range.end);
      cut = cutsAtWords ? wordBorder(text, { start, end }, maxUnits) : end;
    }
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
