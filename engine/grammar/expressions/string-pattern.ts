import { type CodeRange, chars, choice, EMPTY, type Gbnf, literal, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { WorkBudget } from "../../work-budget.ts";
import { automatonOf } from "./automaton.ts";
import { ALL_CODES, includes, subtract } from "./code-set.ts";
import { type Expression, parseExpression, UnsupportedPattern } from "./regular-expression.ts";

/** The most work that making the automaton of one pattern may cost. */
const MAX_PATTERN_WORK = 64_000;

/** The bounds of the length of a text, in characters; `maxLength` undefined is without end. */
export type LengthBounds = { readonly minLength: number; readonly maxLength: number | undefined };

/** A pattern as grammar, with bounds that the length of every text keeps that it matches. */
export type PatternGrammar = LengthBounds & { readonly inside: Gbnf };

/** The characters that stand in a JSON string only as escapes, with the short forms. */
const ESCAPES: readonly (readonly [code: number, text: string])[] = [
  [0x22, '\\"'],
  [0x5c, "\\\\"],
  [0x08, "\\b"],
  [0x09, "\\t"],
  [0x0a, "\\n"],
  [0x0c, "\\f"],
  [0x0d, "\\r"],
];
const NOT_PLAIN: readonly CodeRange[] = [
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
];
/**
 * Returns a grammar of the inside of a JSON string that matches a pattern of JSON Schema: anywhere in the text, unless
 * anchored. Undefined where the pattern is outside the subset of `parseExpression` or anchors in the middle. The
 * pattern must be valid. Bounds of the length are met where the pattern is a repeated class; elsewhere compare with the
 * returned ones.
 */
export function stringPattern(rules: GrammarRules, pattern: string, bounds: LengthBounds): PatternGrammar | undefined {
  rules.budget.pay(pattern.length);
  try {
    const options = branches(parseExpression(pattern)).map((branch) => bounded(unanchored(branch), bounds));
    const whole: Expression = { kind: "choice", options };
    const key = `pattern ${bounds.minLength} ${bounds.maxLength} ${pattern}`;
    return { inside: rules.once(key, () => expressionGrammar(rules, whole)), ...lengthBounds(whole) };
  } catch (error) {
    if (error instanceof UnsupportedPattern) return undefined;
    throw error;
  }
}

/** Takes the anchors off, and puts any text where there is none. */
function unanchored(branch: readonly Expression[]): Expression {
  const any: Expression = { kind: "repeat", part: { kind: "set", ranges: ALL_CODES }, min: 0, max: undefined };
  const parts = [...branch];
  const isStart = parts[0]?.kind === "start";
  while (parts[0]?.kind === "start") parts.shift();
  const isEnd = parts.at(-1)?.kind === "end";
  while (parts.at(-1)?.kind === "end") parts.pop();
  return { kind: "sequence", parts: [...(isStart ? [] : [any]), ...parts, ...(isEnd ? [] : [any])] };
}

function bounded(expression: Expression, bounds: LengthBounds): Expression {
  const only = expression.kind === "sequence" && expression.parts.length === 1 ? expression.parts[0] : undefined;
  if (only?.kind !== "repeat" || only.part.kind !== "set") return expression;
  const max = Math.min(only.max ?? Number.POSITIVE_INFINITY, bounds.maxLength ?? Number.POSITIVE_INFINITY);
  const min = Math.max(only.min, bounds.minLength);
  if (min > max) return { kind: "choice", options: [] };
  return { ...only, min, max: max === Number.POSITIVE_INFINITY ? undefined : max };
}

/** Returns the alternatives at the top, where anchors may stand. */
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
 * Matches the inside of a JSON string that an expression without anchors matches as a whole. There is one rule for each
 * state of its automaton, so that a text has one reading: llama.cpp follows all readings at once, for each token that
 * it could choose, and the ways to read a text by an expression such as `(a*)*` double with every character. A repeated
 * class has one reading as it is. Throws `UnsupportedPattern`.
 */
export function expressionGrammar(rules: GrammarRules, expression: Expression): Gbnf {
  const only = onlyPart(expression);
  if (only.kind === "repeat" && only.part.kind === "set" && (only.max ?? only.min) >= only.min)
    return rules.times(jsonChar(only.part.ranges), only.min, only.max);
  const states = automatonOf(only, new WorkBudget(MAX_PATTERN_WORK, rules.patternBudget));
  if (!rules.takePatternStates(states.length)) throw new UnsupportedPattern();
  const made = new Map<number, Gbnf>();
  const ruleOf = (at: number): Gbnf => {
    const known = made.get(at);
    if (known !== undefined) return known;
    return rules.fresh((self) => {
      made.set(at, self);
      const { accepts = false, steps = [] } = states[at] ?? {};
      const ways = steps.map(({ ranges, to }) => sequence(jsonChar(ranges), ruleOf(to)));
      return choice(...ways, ...(accepts ? [EMPTY] : []));
    });
  };
  return ruleOf(0);
}

/** Takes off what stands around a single part. */
function onlyPart(expression: Expression): Expression {
  const parts =
    expression.kind === "sequence" ? expression.parts : expression.kind === "choice" ? expression.options : [];
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? onlyPart(only) : expression;
}

/** Matches one character of a set as a JSON string writes it: plain where it may be, else by its short escape. */
function jsonChar(ranges: readonly CodeRange[]): Gbnf {
  const plain = subtract(ranges, NOT_PLAIN);
  const escaped = ESCAPES.filter(([code]) => includes(ranges, code)).map(([, text]) => literal(text));
  const options = [...(plain.length > 0 ? [chars(...plain)] : []), ...escaped];
  if (options.length > 0) return choice(...options);
  const controls = Array.from({ length: 0x20 }, (_, code) => code).filter((code) => includes(ranges, code));
  return choice(...controls.map((code) => literal(`\\u${code.toString(16).padStart(4, "0")}`)));
}

/** Returns bounds of the length of every text that an expression matches. */
export function lengthBounds(expression: Expression): LengthBounds {
  switch (expression.kind) {
    case "set":
      return { minLength: 1, maxLength: 1 };
    case "sequence":
    case "choice": {
      const isChoice = expression.kind === "choice";
      const all = (isChoice ? expression.options : expression.parts).map(lengthBounds);
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
