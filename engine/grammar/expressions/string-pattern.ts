import {
  type CodeRange,
  chars,
  charsOf,
  choice,
  EMPTY,
  except,
  type Gbnf,
  literal,
  sequence,
} from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { WorkBudget } from "../../work-budget.ts";
import { type AutomatonState, automatonOf } from "./automaton.ts";
import {
  ALL_CODES,
  type Expression,
  ifSupported,
  includes,
  parseExpression,
  subtract,
  UnsupportedPattern,
  unite,
} from "./regular-expression.ts";

/** Steps of work for the automaton of one part of a pattern. */
const MAX_PATTERN_WORK = 40_000;

export type LengthBounds = { readonly minLength: number; readonly maxLength: number | undefined };

/** The most ranges of a set that is written by the characters that it lacks, `[^…]`, where that is shorter. */
const MOST_GAPS = 16;
/** The most repetitions of a character that xgrammar is given as states. */
const MOST_STATES = 4;

/** The characters that are written as a backslash and a letter, with that. */
const ESCAPES: readonly (readonly [code: number, letter: string])[] = [
  [0x22, '"'],
  [0x5c, "\\"],
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0c, "f"],
  [0x0d, "r"],
];
/** Characters that JSON text does not hold plainly. */
export const ESCAPED_CODES: readonly CodeRange[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];

/** All texts that a valid pattern matches (anywhere unless anchored); undefined outside of the subset. */
export function patternExpression(pattern: string): Expression | undefined {
  return ifSupported(() => ({ kind: "choice", options: branches(parseExpression(pattern)).map(unanchored) }));
}

/** A branch without an anchor at an end takes any text there: `a` is read as `^.*a.*$`, with line breaks. */
function unanchored(branch: readonly Expression[]): Expression {
  const any: Expression = { kind: "repeat", part: { kind: "set", ranges: ALL_CODES }, min: 0, max: undefined };
  const parts = [...branch];
  const isStart = parts[0]?.kind === "start";
  while (parts[0]?.kind === "start") parts.shift();
  const isEnd = parts.at(-1)?.kind === "end";
  while (parts.at(-1)?.kind === "end") parts.pop();
  return { kind: "sequence", parts: [...(isStart ? [] : [any]), ...parts, ...(isEnd ? [] : [any])] };
}

/** Returns the branches of the outermost choice, which each have anchors of their own: `^a|b$`. */
function branches(expression: Expression): readonly (readonly Expression[])[] {
  if (expression.kind === "choice") return expression.options.flatMap(branches);
  if (expression.kind !== "sequence") return [[expression]];
  const [only] = expression.parts;
  if (expression.parts.length === 1 && only !== undefined && only.kind !== "repeat") {
    return only.kind === "choice" || only.kind === "sequence" ? branches(only) : [[only]];
  }
  return [expression.parts];
}

/**
 * Matches the inside of a JSON string with one reading per text: llama.cpp follows all readings, and those of `(a*)*`
 * double with every character. A part is written directly where the next character decides whether it continues; the
 * rest is an automaton.
 *
 *     ^a*b$           [a]* [b]                            after a's, only b ends the repetition
 *     ^a*ab$          an automaton of a*a, then [b]       an a may be of the repetition, or the one behind it
 *     ^[a-z]+[a-f]$   an automaton of both
 */
export function expressionGrammar(rules: GrammarRules, expression: Expression): Gbnf {
  const parts = sequenceParts(expression);
  const behind = beginnings(parts);
  // Parts are collected in `group` until what may continue it (`goingOn`) and what may follow have no common character.
  const mayMeet = isCounted(rules, expression);
  const written: Gbnf[] = [];
  let group: Expression[] = [];
  let goingOn: readonly CodeRange[] = [];
  for (const [at, part] of parts.entries()) {
    rules.patternBudget.spend(1);
    group.push(part);
    goingOn = isEmptiable(part) ? unite([...continuing(part), ...beginning(part), ...goingOn]) : continuing(part);
    if (meet(goingOn, behind[at] ?? []) && !mayMeet) continue;
    written.push(
      group.length === 1 ? partGrammar(rules, part) : statesGrammar(rules, { kind: "sequence", parts: group }),
    );
    group = [];
    goingOn = [];
  }
  return sequence(...written);
}

/** xgrammar follows several readings at little cost, and takes long to compile a state for each repetition. */
function isCounted(rules: GrammarRules, part: Expression): boolean {
  return rules.reader.name === "xgrammar" && hasLongCount(part);
}

function hasLongCount(part: Expression): boolean {
  if (part.kind === "repeat") return part.part.kind === "set" ? (part.max ?? 0) > MOST_STATES : hasLongCount(part.part);
  return partsOf(part).some(hasLongCount);
}

function partsOf(expression: Expression): readonly Expression[] {
  if (expression.kind === "sequence") return expression.parts;
  return expression.kind === "choice" ? expression.options : [];
}

/** Returns, for each part, the characters with which the parts behind it may begin. */
function beginnings(parts: readonly Expression[]): readonly (readonly CodeRange[])[] {
  const found: (readonly CodeRange[])[] = [];
  let behind: readonly CodeRange[] = [];
  for (const part of parts.toReversed()) {
    found.push(behind);
    behind = isEmptiable(part) ? unite([...beginning(part), ...behind]) : beginning(part);
  }
  return found.toReversed();
}

/** Writes a part directly, or as an automaton if it has several readings within itself. */
function partGrammar(rules: GrammarRules, part: Expression): Gbnf {
  switch (part.kind) {
    case "set":
      return jsonChar(part.ranges);
    case "repeat": {
      const { part: inner, min, max } = part;
      if ((max ?? min) < min) throw new UnsupportedPattern();
      if (inner.kind === "set") return rules.times(jsonChar(inner.ranges), min, max);
      if (isEmptiable(inner) || (max !== 1 && meet(continuing(inner), beginning(inner))))
        return statesGrammar(rules, part);
      return rules.times(
        rules.fresh(() => expressionGrammar(rules, inner)),
        min,
        max,
      );
    }
    case "choice": {
      const starts = part.options.map(beginning);
      const count = starts.reduce((sum, ranges) => sum + sizeOf(ranges), 0);
      const isDeterministic = count === sizeOf(unite(starts.flat())) && part.options.filter(isEmptiable).length < 2;
      return isDeterministic || isCounted(rules, part)
        ? choice(...part.options.map((option) => expressionGrammar(rules, option)))
        : statesGrammar(rules, part);
    }
    default:
      throw new UnsupportedPattern();
  }
}

function statesGrammar(rules: GrammarRules, expression: Expression): Gbnf {
  const states = automatonOf(expression, new WorkBudget(MAX_PATTERN_WORK, rules.patternBudget));
  if (!rules.takePatternStates(states.length)) throw new UnsupportedPattern();
  return automatonGrammar(rules, states, () => EMPTY);
}

/** Returns the parts of an expression, those of groups without a choice or a count among them. */
export function sequenceParts(expression: Expression): readonly Expression[] {
  if (expression.kind === "sequence") return expression.parts.flatMap(sequenceParts);
  const [only] = expression.kind === "choice" ? expression.options : [];
  const isGroup = expression.kind === "choice" && expression.options.length === 1 && only !== undefined;
  return isGroup ? sequenceParts(only) : [expression];
}

/** Returns whether an expression matches the empty text. */
function isEmptiable(expression: Expression): boolean {
  switch (expression.kind) {
    case "set":
      return false;
    case "sequence":
      return expression.parts.every(isEmptiable);
    case "choice":
      return expression.options.some(isEmptiable);
    case "repeat":
      return expression.min === 0 || isEmptiable(expression.part);
    default:
      throw new UnsupportedPattern();
  }
}

/** Returns the characters with which a match may begin. */
function beginning(expression: Expression): readonly CodeRange[] {
  switch (expression.kind) {
    case "set":
      return expression.ranges;
    case "sequence": {
      const last = expression.parts.findIndex((part) => !isEmptiable(part));
      return unite(expression.parts.slice(0, last < 0 ? undefined : last + 1).flatMap(beginning));
    }
    case "choice":
      return unite(expression.options.flatMap(beginning));
    case "repeat":
      return beginning(expression.part);
    default:
      throw new UnsupportedPattern();
  }
}

/** Returns the characters that may follow a possible end of an expression; a superset. */
function continuing(expression: Expression): readonly CodeRange[] {
  switch (expression.kind) {
    case "set":
      return [];
    case "sequence": {
      const found: CodeRange[] = [];
      for (const part of expression.parts.toReversed()) {
        found.push(...continuing(part));
        if (!isEmptiable(part)) break;
        found.push(...beginning(part));
      }
      return unite(found);
    }
    case "choice":
      return expression.options.length === 1
        ? unite(expression.options.flatMap(continuing))
        : everyCharacter(expression);
    case "repeat": {
      const { part, min, max } = expression;
      const goesOn = max !== min || isEmptiable(part) ? beginning(part) : [];
      return unite([...continuing(part), ...goesOn]);
    }
    default:
      throw new UnsupportedPattern();
  }
}

/** Returns all characters in an expression: for a choice, a cheap superset of those that may continue one option. */
function everyCharacter(expression: Expression): readonly CodeRange[] {
  if (expression.kind === "set") return expression.ranges;
  if (expression.kind === "repeat") return everyCharacter(expression.part);
  if (expression.kind === "start" || expression.kind === "end") throw new UnsupportedPattern();
  return unite(partsOf(expression).flatMap(everyCharacter));
}

const sizeOf = (ranges: readonly CodeRange[]) => ranges.reduce((sum, [low, high]) => sum + high - low + 1, 0);

function meet(some: readonly CodeRange[], others: readonly CodeRange[]): boolean {
  return some.some(([low, high]) => others.some(([from, to]) => low <= to && from <= high));
}

/** Each state is a rule; `behind` is the grammar after a final state, NEVER if the text must not end there. */
export function automatonGrammar<State extends AutomatonState>(
  rules: GrammarRules,
  states: readonly State[],
  behind: (state: State) => Gbnf,
): Gbnf {
  const made = new Map<number, Gbnf>();
  const open: number[] = [];
  const ruleOf = (at: number): Gbnf => {
    const known = made.get(at) ?? rules.declared();
    if (!made.has(at)) open.push(at);
    made.set(at, known);
    return known;
  };
  const start = ruleOf(0);
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const state = states[at];
    if (state === undefined) continue;
    const ways = state.steps.map(({ ranges, to }) => sequence(jsonChar(ranges), ruleOf(to)));
    rules.define(ruleOf(at), choice(...ways, ...(state.accepts ? [behind(state)] : [])));
  }
  return start;
}

/**
 * Matches one character of a set as JSON writes it: plain if allowed, else its short escape. One spelling for each, so that
 * an automaton of characters is one of JSON texts; a control character without a short escape is written only where the set
 * has nothing else.
 */
function jsonChar(ranges: readonly CodeRange[]): Gbnf {
  const letters = ESCAPES.filter(([code]) => includes(ranges, code)).map(([, letter]) => letter + letter);
  const escapes = letters.length > 0 ? [sequence(literal("\\"), charsOf(...letters))] : [];
  const options = [...plainChar(ranges), ...escapes];
  if (options.length > 0) return choice(...options);
  const controls = Array.from({ length: 0x20 }, (_, code) => code).filter((code) => includes(ranges, code));
  return choice(...controls.map((code) => literal(`\\u${code.toString(16).padStart(4, "0")}`)));
}

/** A set that lacks few characters is written `[^…]`: its ranges would be written out by every reader. */
function plainChar(ranges: readonly CodeRange[]): readonly Gbnf[] {
  const last = ranges.at(-1);
  if (last?.[1] === ALL_CODES.at(-1)?.[1] && ranges.length <= MOST_GAPS) {
    const out = subtract(ALL_CODES, ranges);
    if (out.length < ranges.length + 1) return [except(...unite([...ESCAPED_CODES, ...out]))];
  }
  const plain = subtract(ranges, ESCAPED_CODES);
  return plain.length > 0 ? [chars(...plain)] : [];
}

/** Returns the least and greatest length of matches, in characters; anchors have none. */
export function lengthBounds(expression: Expression): LengthBounds {
  switch (expression.kind) {
    case "set":
      return { minLength: 1, maxLength: 1 };
    case "sequence":
    case "choice": {
      const isChoice = expression.kind === "choice";
      const all = partsOf(expression).map(lengthBounds);
      const longest = all.map((each) => each.maxLength ?? Number.POSITIVE_INFINITY);
      const add = (a: number, b: number) => a + b;
      const min = isChoice
        ? Math.min(...all.map((each) => each.minLength))
        : all.map((each) => each.minLength).reduce(add, 0);
      const max = isChoice ? Math.max(...longest) : longest.reduce(add, 0);
      return { minLength: min, maxLength: max === Number.POSITIVE_INFINITY ? undefined : max };
    }
    case "repeat": {
      const { minLength, maxLength } = lengthBounds(expression.part);
      const max =
        expression.max === 0
          ? 0
          : expression.max === undefined || maxLength === undefined
            ? undefined
            : maxLength * expression.max;
      return { minLength: minLength * expression.min, maxLength: max };
    }
    default:
      return { minLength: 0, maxLength: 0 };
  }
}
