import { type CodeRange, chars, choice, EMPTY, type Gbnf, literal, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { ALL_CODES, includes, subtract } from "./code-set.ts";
import { type Expression, parseExpression, UnsupportedPattern } from "./regular-expression.ts";

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
const MAX_ALTERNATIVES = 256;
/**
 * The most states of one pattern. Counts multiply where they are nested; one repeated class has one reading and is
 * free.
 */
const MAX_STATES = 512;

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
    const size = states(whole);
    if (!isOneClass(options) && (size > MAX_STATES || !rules.takePatternStates(size))) return undefined;
    return { inside: expressionGrammar(rules, whole), ...lengthBounds(whole) };
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
 * Matches the inside of a JSON string that an expression without anchors matches as a whole. Throws
 * `UnsupportedPattern`.
 */
export function expressionGrammar(rules: GrammarRules, expression: Expression): Gbnf {
  rules.budget.pay(1);
  switch (expression.kind) {
    case "set":
      rules.budget.pay(expression.ranges.length);
      return jsonChar(expression.ranges);
    case "sequence":
      return sequence(...expression.parts.map((part) => expressionGrammar(rules, part)));
    case "choice":
      return choice(...expression.options.map((option) => expressionGrammar(rules, option)));
    case "repeat": {
      // A repeated part that can be empty would make the grammar left-recursive.
      const solid = withoutEmpty(expression.part, rules.budget);
      const min = solid.hadEmpty ? 0 : expression.min;
      if (expression.max !== undefined && expression.max < min) throw new UnsupportedPattern();
      if (solid.rest === undefined) return EMPTY;
      const body = expressionGrammar(rules, solid.rest);
      const part = body.kind === "chars" ? body : rules.fresh(() => body);
      return rules.times(part, min, expression.max);
    }
    default:
      throw new UnsupportedPattern();
  }
}

/** Returns the same language without the empty text, and whether the empty text was in it. Throws `WorkSpent`. */
function withoutEmpty(
  expression: Expression,
  budget: WorkBudget,
): { readonly rest: Expression | undefined; readonly hadEmpty: boolean } {
  budget.pay(1);
  switch (expression.kind) {
    case "set":
      return { rest: expression, hadEmpty: false };
    case "choice": {
      const options = expression.options.map((option) => withoutEmpty(option, budget));
      return {
        rest: anyOf(options.flatMap(({ rest }) => rest ?? [])),
        hadEmpty: options.some((each) => each.hadEmpty),
      };
    }
    case "repeat": {
      const { rest, hadEmpty } = withoutEmpty(expression.part, budget);
      const { min, max } = expression;
      if (max === 0 || rest === undefined) return { rest: undefined, hadEmpty: true };
      const isEmpty = hadEmpty || min === 0;
      return { rest: { kind: "repeat", part: rest, min: isEmpty ? 1 : min, max }, hadEmpty: isEmpty };
    }
    case "sequence": {
      const parts = expression.parts.map((part) => withoutEmpty(part, budget));
      if (parts.some((part) => !part.hadEmpty)) return { rest: expression, hadEmpty: false };
      if (parts.length > MAX_ALTERNATIVES) throw new UnsupportedPattern();
      budget.pay(parts.length ** 2 / 4);
      // The first part that is not empty, and then the rest as it was.
      const options = parts.flatMap(({ rest }, i): Expression[] =>
        rest === undefined ? [] : [{ kind: "sequence", parts: [rest, ...expression.parts.slice(i + 1)] }],
      );
      return { rest: anyOf(options), hadEmpty: true };
    }
    default:
      throw new UnsupportedPattern();
  }
}

function anyOf(options: readonly Expression[]): Expression | undefined {
  return options.length === 0 ? undefined : { kind: "choice", options };
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

function isOneClass(options: readonly Expression[]): boolean {
  const [only] = options;
  return options.length === 1 && only?.kind === "repeat" && only.part.kind === "set";
}

/** Returns the size of the automaton that reads an expression. */
function states(expression: Expression): number {
  const sum = (parts: readonly Expression[]) => parts.reduce((total, part) => total + states(part), 0);
  switch (expression.kind) {
    case "sequence":
      return sum(expression.parts);
    case "choice":
      return sum(expression.options);
    case "repeat":
      return states(expression.part) * Math.max(1, expression.max ?? expression.min);
    default:
      return 1;
  }
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
