import type { Gbnf } from "../../gbnf/gbnf.ts";
import { EMPTY } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { stringChar } from "../../gbnf/json-value.ts";
import { WorkBudget } from "../../work-budget.ts";
import { automatonOf } from "./automaton.ts";
import { automatonOfLength, automatonOfTexts, type ProductPart, productOf } from "./automaton-product.ts";
import { withinLength } from "./length-fit.ts";
import { type Expression, UnsupportedPattern } from "./regular-expression.ts";
import { automatonGrammar, expressionGrammar, type LengthBounds, lengthBounds } from "./string-pattern.ts";

/** The greatest length that is counted by states, in characters; each state is a rule. */
const MAX_COUNTED = 512;
const MAX_STATES = 1_024;
const MAX_TEXT_WORK = 40_000;

export type TextFacets = LengthBounds & {
  readonly wanted: readonly Expression[];
  readonly unwanted: readonly Expression[];
  readonly except: readonly string[];
};

/**
 * Where counting characters takes too many rules, counts of the expression are narrowed. Throws `UnsupportedPattern`.
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
  try {
    return productGrammar(rules, facets, false);
  } catch (error) {
    if (!(error instanceof UnsupportedPattern) || fitted === undefined) throw error;
    return expressionGrammar(rules, fitted.expression);
  }
}

export function keepsTo(expression: Expression, { minLength, maxLength }: LengthBounds): boolean {
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
