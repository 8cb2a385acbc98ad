import { type CodeRange, chars, choice, EMPTY, type Gbnf, markup, NEVER, repeat, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { stringChar } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { automatonOf, automatonOfLength, automatonOfTexts, type ProductPart, productOf } from "./automaton.ts";
import { ALL_CODES, type Expression, ifSupported, SPACES, subtract, UnsupportedPattern } from "./regular-expression.ts";
import {
  automatonGrammar,
  expressionGrammar,
  type LengthBounds,
  lengthBounds,
  sequenceParts,
} from "./string-pattern.ts";

type Repeat = Extract<Expression, { kind: "repeat" }>;

/** An expression whose texts have lengths within bounds; `isWhole` if it matches all such texts of the original. */
type FittedExpression = { readonly expression: Expression; readonly isWhole: boolean };

/** Matches no text: a branch that has no length within the bounds. */
const NOTHING: Expression = { kind: "choice", options: [] };

/**
 * Narrows counts until every match has a length within the bounds; undefined if that is impossible. `^a+$` of 1 to 3
 * characters becomes `a{1,3}`: one repetition for the text, where an automaton needs a state for each length.
 */
function withinLength(expression: Expression, bounds: LengthBounds): FittedExpression | undefined {
  const parts = sequenceParts(expression);
  const [only] = parts;
  if (parts.length === 1 && only?.kind === "choice") {
    const fitted = only.options.flatMap((option) => withinLength(option, bounds) ?? []);
    if (fitted.length < only.options.length) return undefined;
    const options = fitted.map((each) => each.expression).filter((option) => option !== NOTHING);
    if (options.length === 0) return undefined;
    return { expression: { kind: "choice", options }, isWhole: fitted.every(({ isWhole }) => isWhole) };
  }
  return fittedSequence(parts, bounds);
}

/**
 * The counts of `stretched` parts absorb the bounds: the endless repetitions, or else the longest one. The first of them
 * takes the least length; of the greatest, each takes an equal share of what the other parts leave. With several, texts
 * that use more than one share are lost, so the result is not `isWhole`.
 */
function fittedSequence(
  parts: readonly Expression[],
  { minLength, maxLength }: LengthBounds,
): FittedExpression | undefined {
  const lengths = parts.map(lengthBounds);
  const least = lengths.reduce((sum, each) => sum + each.minLength, 0);
  const most = lengths.reduce((sum, each) => sum + (each.maxLength ?? Number.POSITIVE_INFINITY), 0);
  if (least > (maxLength ?? Number.POSITIVE_INFINITY) || most < minLength)
    return { expression: NOTHING, isWhole: true };
  const elastic = parts.flatMap((part, at) => (isElastic(part) ? [at] : []));
  const endless = elastic.filter((at) => lengths[at]?.maxLength === undefined);
  const longest = (at: number) => lengths[at]?.maxLength ?? 0;
  const stretched = endless.length > 0 ? endless : elastic.toSorted((a, b) => longest(b) - longest(a)).slice(0, 1);
  const [first] = stretched;
  if (first === undefined) return undefined;
  const ofRest = (pick: (each: LengthBounds) => number) =>
    lengths.reduce((sum, each, at) => sum + (stretched.includes(at) ? 0 : pick(each)), 0);
  const restLeast = ofRest((each) => each.minLength);
  const restMost = ofRest((each) => each.maxLength ?? Number.POSITIVE_INFINITY);
  const share = maxLength === undefined ? undefined : Math.floor((maxLength - restMost) / stretched.length);
  if (share !== undefined && !(share >= 0)) return undefined;
  const narrowed = [...parts];
  for (const at of stretched) {
    const part = parts[at];
    if (part === undefined || !isElastic(part)) return undefined;
    const unit = lengthBounds(part.part).minLength;
    const others =
      restLeast + stretched.reduce((sum, other) => sum + (other === at ? 0 : (lengths[other]?.minLength ?? 0)), 0);
    const min = at === first ? Math.max(part.min, Math.ceil((minLength - others) / unit)) : part.min;
    const max =
      share === undefined ? part.max : Math.min(part.max ?? Number.POSITIVE_INFINITY, Math.floor(share / unit));
    if (max !== undefined && max < min) return undefined;
    narrowed[at] = { ...part, min, max };
  }
  return {
    expression: { kind: "sequence", parts: narrowed },
    isWhole: stretched.length === 1 && restLeast === restMost,
  };
}

/** A repetition of a part of one length: its count is a length. */
function isElastic(part: Expression): part is Repeat {
  if (part.kind !== "repeat") return false;
  const { minLength, maxLength } = lengthBounds(part.part);
  return minLength > 0 && minLength === maxLength;
}

/** The greatest length that is counted by states, in characters; each state is a rule. */
const MAX_COUNTED = 512;
const MAX_STATES = 1_024;
/** Steps of work for the automata of one string's constraints and their product. */
const MAX_TEXT_WORK = 40_000;

/** All patterns of `wanted` apply, none of `unwanted`, and no text of `except` is allowed. */
export type TextFacets = LengthBounds & {
  readonly wanted: readonly Expression[];
  readonly unwanted: readonly Expression[];
  readonly except: readonly string[];
};

/**
 * Matches the inside of a string, in the cheapest form that holds all constraints: a repetition of characters for lengths
 * alone, the expression for one pattern whose matches have no other length, the expression with narrowed counts, and a
 * product of automata. Where that has too many states, narrowed counts stand, which refuse some texts. Throws
 * `UnsupportedPattern`.
 */
export function textGrammar(rules: GrammarRules, facets: TextFacets): Gbnf {
  const { wanted, unwanted, except, minLength, maxLength } = facets;
  const [only] = wanted;
  if (wanted.length === 0 && unwanted.length + except.length === 0)
    return rules.times(stringChar(rules), minLength, maxLength);
  const isAlone = wanted.length === 1 && unwanted.length + except.length === 0;
  const isInBounds = wanted.some((expression) => keepsTo(expression, facets));
  if (!isAlone || only === undefined) return productGrammar(rules, facets, isInBounds);
  if (isInBounds) return expressionGrammar(rules, only);
  const fitted = withinLength(only, facets);
  if (fitted?.isWhole) return expressionGrammar(rules, fitted.expression);
  if (fitted === undefined) return productGrammar(rules, facets, false);
  return ifSupported(() => productGrammar(rules, facets, false)) ?? expressionGrammar(rules, fitted.expression);
}

/** Returns whether all matches have a length within the bounds, so that nothing must count characters. */
function keepsTo(expression: Expression, { minLength, maxLength }: LengthBounds): boolean {
  const own = lengthBounds(expression);
  const most = maxLength ?? Number.POSITIVE_INFINITY;
  return own.minLength >= minLength && (own.maxLength ?? Number.POSITIVE_INFINITY) <= most;
}

function productGrammar(rules: GrammarRules, facets: TextFacets, isInBounds: boolean): Gbnf {
  const budget = new WorkBudget(MAX_TEXT_WORK, rules.patternBudget);
  const parts = facetParts(isInBounds ? { ...facets, minLength: 0, maxLength: undefined } : facets, budget);
  const states = productOf(parts, MAX_STATES, budget);
  if (!rules.takePatternStates(states.length)) throw new UnsupportedPattern();
  return automatonGrammar(rules, states, () => EMPTY);
}

export function facetParts(facets: TextFacets, budget: WorkBudget): readonly ProductPart[] {
  const { wanted, unwanted, except, minLength, maxLength } = facets;
  const part = (match: ProductPart["match"]) => (expression: Expression) => ({
    automaton: automatonOf(expression, budget),
    match,
  });
  const parts: ProductPart[] = [...wanted.map(part("wanted")), ...unwanted.map(part("unwanted"))];
  if (except.length > 0) parts.push({ automaton: automatonOfTexts(except, budget), match: "unwanted" });
  if (minLength > 0 || maxLength !== undefined) {
    if ((maxLength ?? minLength) > MAX_COUNTED) throw new UnsupportedPattern();
    parts.push({ automaton: automatonOfLength(minLength, maxLength), match: "wanted" });
  }
  return parts;
}

export type TextEnd = {
  /** The mark: not empty, and without leading white space. */
  readonly mark: string;
  /** The grammar behind the mark; `NEVER` for one that must not come. */
  readonly behind: Gbnf;
  /** Whether the mark counts only if nothing but white space precedes it. Default: false. */
  readonly onlyFirst?: boolean;
  /** Whether `behind` includes the mark, which is a single character then. Default: false. */
  readonly isKept?: boolean;
};

/**
 * Any text up to the first mark, and the grammar after it: one rule per prefix of a mark (Aho and Corasick), so that a
 * text has one reading. With the mark `<t>`:
 *
 *     r0 (no part of a mark)   "<" r1 | any other r0
 *     r1 (read "<")            "t" r2 | "<" r1 | any other r0
 *     r2 (read "<t")           ">" and the grammar behind | "<" r1 | any other r0
 *
 * Marks that count at the beginning only (`isFirst`) have states of their own, left at the first character that is neither
 * white space nor the next of such a mark.
 */
export function textUntil(rules: GrammarRules, ends: readonly TextEnd[], mayEnd: boolean): Gbnf {
  const beginnings = new Beginnings(ends.flatMap(({ mark, onlyFirst }) => (onlyFirst ? [] : [mark])));
  const all = new Set(ends.flatMap(({ mark }) => [...mark]));
  const single = (char: string): CodeRange => [char.codePointAt(0) ?? 0, char.codePointAt(0) ?? 0];
  const state: (text: string, isFirst: boolean) => Gbnf = rules.keyed((text: string, isFirst: boolean): Gbnf => {
    const steps = new Map<Gbnf, CodeRange[]>();
    const go = (target: Gbnf, ranges: readonly CodeRange[]) =>
      steps.set(target, [...(steps.get(target) ?? []), ...ranges]);
    const endings: Gbnf[] = [];
    const codes = isFirst ? all : beginnings.charsBehind(text);
    const others = subtract(ALL_CODES, [...codes].map(single));
    for (const char of codes) {
      const longer = text + char;
      const end = endOf(ends, longer, isFirst);
      if (end !== undefined) endings.push(end.isKept ? end.behind : sequence(chars(single(char)), end.behind));
      else if (isFirst && ends.some(({ mark, onlyFirst }) => onlyFirst && mark.startsWith(longer))) {
        go(state(longer, true), [single(char)]);
      } else go(state(beginnings.longestIn(longer), false), [single(char)]);
    }
    const spaces = isFirst && text === "" ? SPACES : [];
    if (spaces.length > 0) go(state("", true), spaces);
    go(state("", false), subtract(others, spaces));
    return choice(
      ...[...steps].map(([target, ranges]) => sequence(chars(...ranges), target)),
      ...endings,
      ...(mayEnd ? [EMPTY] : []),
    );
  });
  return state(
    "",
    ends.some(({ onlyFirst }) => onlyFirst),
  );
}

/**
 * Matches any text up to the first mark, and the grammar behind it, in the form that the grammar's reader holds cheaply.
 * For xgrammar such text may always end without a mark, and text that begins with a mark that counts there only may
 * also be read as text without that mark.
 */
export function freeText(rules: GrammarRules, ends: readonly TextEnd[], mayEnd: boolean): Gbnf {
  if (rules.reader.name !== "xgrammar" || ends.some(({ isKept }) => isKept)) return textUntil(rules, ends, mayEnd);
  const spaces = repeat(chars(...SPACES), 0, undefined);
  const atStart = ends.flatMap(({ mark, behind, onlyFirst }) =>
    onlyFirst ? [sequence(spaces, markup(mark), behind)] : [],
  );
  const others = ends.filter(({ onlyFirst }) => !onlyFirst);
  const free: Gbnf = {
    kind: "until",
    ends: others.flatMap(({ mark, behind }) => (behind === NEVER ? [] : [{ mark, behind: rules.shared(behind) }])),
    without: others.flatMap(({ mark, behind }) => (behind === NEVER ? [mark] : [])),
  };
  return atStart.length === 0
    ? free
    : choice(
        ...atStart,
        rules.fresh(() => free),
      );
}

export function textWithout(rules: GrammarRules, mark: string): Gbnf {
  const name = [...mark].map((char) => (char.codePointAt(0) ?? 0).toString(16)).join("-");
  return rules.named(`without-${name}`, () => freeText(rules, [{ mark, behind: NEVER }], true));
}

function endOf(ends: readonly TextEnd[], text: string, isFirst: boolean): TextEnd | undefined {
  return ends
    .filter(({ mark, onlyFirst }) => (onlyFirst ? isFirst && text === mark : text.endsWith(mark)))
    .reduce<TextEnd | undefined>((a, b) => (a === undefined || b.mark.length > a.mark.length ? b : a), undefined);
}

/** The beginnings of marks, each with the characters that continue it. */
class Beginnings {
  readonly #next = new Map<string, Set<string>>([["", new Set()]]);

  constructor(marks: readonly string[]) {
    for (const mark of marks) {
      let text = "";
      for (const char of mark) {
        const next = this.#next.get(text) ?? new Set();
        this.#next.set(text, next.add(char));
        text += char;
      }
    }
  }

  /** Returns the longest end of a text with which a mark begins: of "a<<t" and the mark "<t>" it is "<t". */
  longestIn(text: string): string {
    let from = 0;
    while (!this.#next.has(text.slice(from))) from += 1;
    return text.slice(from);
  }

  /** Returns the characters that make a beginning longer, or a shorter end of it: behind "<" those are "t" and "<". */
  charsBehind(text: string): ReadonlySet<string> {
    const found = new Set(this.#next.get(text));
    if (text === "") return found;
    for (const char of this.charsBehind(this.longestIn(text.slice(1)))) found.add(char);
    return found;
  }
}
