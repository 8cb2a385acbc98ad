import { choice, type Gbnf, literal, NEVER, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyOfTexts, anyString, fixedValue, type JsonValue, stringChar } from "../../gbnf/json-value.ts";
import { automatonOfTexts, type ProductPart } from "../expressions/automaton.ts";
import { type Expression, ifSupported } from "../expressions/regular-expression.ts";
import { type LengthBounds, patternExpression } from "../expressions/string-pattern.ts";
import { facetParts, type TextFacets, textGrammar } from "../expressions/text-grammar.ts";
import { atLeast, atMost, type Conversion, fixedValues, type PlainNode } from "../schema/schema-alternatives.ts";
import { isList, isObject } from "../schema/schema-document.ts";
import { isFormat, writtenFormat } from "../schema/schema-keywords.ts";
import { isTextExclusion } from "../schema/schema-negation.ts";

/** Steps of work for the automata of one `propertyNames`; beyond them that keyword is not enforced. */
const MAX_PARTS_WORK = 32_000;

/** A keyword that a grammar enforces or gives up. Given up, it is reported by `conversion.skip`. */
type Asked = { readonly node: PlainNode; readonly keyword: string };

/**
 * Matches the JSON strings that satisfy all nodes; NEVER if none does.
 *
 *     { "pattern": "^a+$", "minLength": 1, "maxLength": 3 }  becomes  "\"" [a]{1,3} "\""
 */
export function stringGrammar(conversion: Conversion, nodes: readonly PlainNode[]): Gbnf {
  const isAny = !nodes.some((node) => asksOfText(node) || node.schema.minLength || node.schema.maxLength !== undefined);
  if (isAny) return anyString(conversion.rules);
  const inside = textInside(conversion, nodes);
  return inside === NEVER ? NEVER : sequence(literal('"'), inside, literal('"'));
}

/** Matches the text of a format without quotes, for forms of calls that write strings bare. NEVER for unknown ones. */
export function formatGrammar(rules: GrammarRules, format: string): Gbnf {
  const expression = writtenFormat(format);
  if (expression === undefined) return NEVER;
  const facets = { wanted: [expression], unwanted: [], except: [], minLength: 0, maxLength: undefined };
  return rules.once(`format ${format}`, () => textGrammar(rules, facets));
}

/**
 * Matches the inside of the string. An automaton of all constraints may have too many states or cost too much; then
 * weaker sets of them are tried, each reported. The first one that can be built is taken:
 *
 *  1. all constraints;
 *  2. without bounds of length, which multiply the states by every length;
 *  3. and without exclusions (`not`);
 *  4. one pattern or format alone, the first that can be built;
 *  5. the bounds of length alone, which need no automaton.
 *
 * A weaker set accepts more texts; the check of the whole answer finds those that it should not.
 */
function textInside(conversion: Conversion, nodes: readonly PlainNode[]): Gbnf {
  const bounds = { minLength: atLeast(nodes, "minLength"), maxLength: atMost(nodes, "maxLength") };
  if (bounds.maxLength !== undefined && bounds.minLength > bounds.maxLength) return NEVER;
  const { rules } = conversion;
  if (!nodes.some(asksOfText)) return rules.times(stringChar(rules), bounds.minLength, bounds.maxLength);
  const asked = askedOf(conversion, nodes, bounds);
  const { wanted, unwanted, except } = asked.facets;
  const isBounded = bounds.minLength > 0 || bounds.maxLength !== undefined;
  const isFree = { minLength: 0, maxLength: undefined };
  const tries: (readonly [facets: TextFacets, givenUp: readonly Asked[]])[] = [[asked.facets, []]];
  const lengths = isBounded ? lengthsOf(nodes) : [];
  if (isBounded) tries.push([{ ...asked.facets, ...isFree }, lengths]);
  if (unwanted.length + except.length > 0)
    tries.push([{ ...asked.facets, ...isFree, unwanted: [], except: [] }, [...lengths, ...asked.negative]]);
  for (const [at, only] of wanted.entries()) {
    const others = asked.positive.filter((_, other) => other !== at);
    tries.push([{ ...isFree, wanted: [only], unwanted: [], except: [] }, [...lengths, ...asked.negative, ...others]]);
  }
  tries.push([{ ...bounds, wanted: [], unwanted: [], except: [] }, [...asked.negative, ...asked.positive]]);
  for (const [facets, givenUp] of tries) {
    const made = textOrNone(rules, facets, `${asked.key} ${givenUp.length}`);
    if (made === undefined) continue;
    for (const { node, keyword } of givenUp) conversion.skip(node, keyword);
    return made;
  }
  return NEVER;
}

function asksOfText({ schema }: PlainNode): boolean {
  return schema.pattern !== undefined || schema.format !== undefined || schema.not !== undefined;
}

/** Undefined where the automaton exceeds its limits. Equal constraints (`key`) in a grammar are one rule. */
function textOrNone(rules: GrammarRules, facets: TextFacets, key: string): Gbnf | undefined {
  const { wanted, unwanted, except, minLength, maxLength } = facets;
  const make = () => textGrammar(rules, facets);
  const isPlain = wanted.length + unwanted.length + except.length === 0;
  return ifSupported(isPlain ? make : () => rules.once(`text ${minLength} ${maxLength} ${key}`, make));
}

/**
 * Returns the same constraints as automata, whose product with others the caller builds: a key of an object must satisfy
 * `propertyNames` and match certain patterns of `patternProperties` and not others. Undefined beyond the limits.
 */
export function textParts(conversion: Conversion, nodes: readonly PlainNode[]): readonly ProductPart[] | undefined {
  const bounds = { minLength: atLeast(nodes, "minLength"), maxLength: atMost(nodes, "maxLength") };
  const { budget } = conversion.rules;
  const listed = fixedValues(conversion, nodes, new Set(["string"]));
  const { facets } = askedOf(conversion, nodes, bounds);
  return ifSupported(() => {
    const parts = facetParts(facets, budget.part(MAX_PARTS_WORK));
    if (listed === undefined) return parts;
    const texts = listed.filter((value) => typeof value === "string");
    return [...parts, { automaton: automatonOfTexts(texts, budget), match: "wanted" }];
  });
}

/**
 * Collects the constraints of all nodes, equal ones once. `key` identifies the language: it has the source of each
 * constraint, as expressions have none. A pattern outside of the supported subset is reported here and left out.
 */
function askedOf(conversion: Conversion, nodes: readonly PlainNode[], bounds: LengthBounds) {
  const wanted: Expression[] = [];
  const unwanted: Expression[] = [];
  const except: string[] = [];
  const positive: Asked[] = [];
  const negative: Asked[] = [];
  const keys = new Set<string>();
  const want = (node: PlainNode, keyword: string, text: string, expression: Expression | undefined) => {
    if (expression === undefined) conversion.skip(node, keyword);
    else if (!keys.has(`${keyword} ${text}`)) {
      keys.add(`${keyword} ${text}`);
      wanted.push(expression);
      positive.push({ node, keyword });
    }
  };
  for (const node of nodes) {
    const { pattern, format, not } = node.schema;
    if (typeof pattern === "string") {
      conversion.rules.budget.pay(pattern.length);
      want(node, "pattern", pattern, patternExpression(pattern));
    }
    if (typeof format === "string" && isFormat(format))
      want(node, "format", format, writtenFormat(format, bounds.maxLength));
    if (!isTextExclusion(node.schema) || !isObject(not)) continue;
    negative.push({ node, keyword: "not" });
    keys.add(`not ${JSON.stringify(not)}`);
    const expression = typeof not.pattern === "string" ? patternExpression(not.pattern) : undefined;
    if (expression !== undefined) unwanted.push(expression);
    else if (not.pattern !== undefined) conversion.skip(node, "not");
    const values = Object.hasOwn(not, "const") ? [not.const] : isList(not.enum) ? not.enum : [];
    except.push(...values.filter((value) => typeof value === "string"));
  }
  conversion.rules.budget.payForText([...keys].reduce((sum, key) => sum + key.length, 0));
  return { facets: { ...bounds, wanted, unwanted, except }, positive, negative, key: [...keys].join(" ") };
}

/** A `minLength` of 0 asks nothing, so giving it up is not reported. */
function lengthsOf(nodes: readonly PlainNode[]): readonly Asked[] {
  return nodes.flatMap((node) =>
    ["minLength", "maxLength"].flatMap((keyword) =>
      typeof node.schema[keyword] === "number" && node.schema[keyword] !== 0 ? [{ node, keyword }] : [],
    ),
  );
}

/**
 * How much more a listed value costs than reading its text: its tree of common beginnings for a scalar, an expression
 * for each part for a list or an object.
 */
const SCALAR_COST = 16;
const PARTS_COST = 48;

/**
 * Matches the values of `enum` and `const` that are left. The caller has filtered them by the other keywords, but cannot
 * by a pattern outside of the subset, which is reported. Scalars share their beginnings: `"Paris"` and `"Pisa"` become
 * `"\"P" ("aris\"" | "isa\"")`.
 */
export function fixedValuesGrammar(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  values: readonly JsonValue[],
): Gbnf {
  const { budget, rules } = conversion;
  for (const node of nodes)
    if (typeof node.schema.pattern === "string" && patternExpression(node.schema.pattern) === undefined)
      conversion.skip(node, "pattern");
  const texts: string[] = [];
  const others: JsonValue[] = [];
  for (const value of values) {
    const text = JSON.stringify(value);
    const isScalar = typeof value !== "object" || value === null;
    budget.payForText((isScalar ? SCALAR_COST : PARTS_COST) * text.length);
    if (isScalar) texts.push(text);
    else others.push(value);
  }
  return choice(anyOfTexts(texts), ...others.map((value) => fixedValue(rules, value)));
}
