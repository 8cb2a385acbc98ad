import { type Gbnf, literal, NEVER, sequence } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import { anyString, stringChar } from "../../gbnf/json-value.ts";
import { expressionGrammar, type LengthBounds, lengthBounds, stringPattern } from "../expressions/string-pattern.ts";
import type { SchemaObject } from "../schema/schema-document.ts";
import { atLeast, atMost, type Conversion, numbers, type PlainNode } from "../schema/schema-facets.ts";
import { writtenFormat } from "../schema/string-format.ts";

/**
 * Matches strings: length, pattern, and the formats that are easy to enforce. A format gives way to a pattern, and to
 * bounds of the length that it does not keep by itself: beside these, in one schema, it is a note.
 */
export function stringGrammar(conversion: Conversion, nodes: readonly PlainNode[]): Gbnf {
  const { rules } = conversion;
  const minLength = atLeast(nodes, "minLength");
  const maxLength = atMost(nodes, "maxLength");
  if (maxLength !== undefined && minLength > maxLength) return NEVER;
  const quoted = (inside: Gbnf) => sequence(literal('"'), inside, literal('"'));
  const inside = patternGrammar(conversion, nodes, minLength, maxLength);
  const formats =
    inside === undefined ? nodes.map(({ schema }) => enforcedFormat(schema, { minLength, maxLength })) : [];
  const format = formats.find((each) => each !== undefined);
  for (const node of nodes) {
    const wanted = enforcedFormat(node.schema);
    if (wanted !== undefined && wanted !== format) conversion.skip(node, "format");
  }
  if (inside !== undefined) return quoted(inside);
  if (format !== undefined) return quoted(formatGrammar(rules, format));
  if (minLength === 0 && maxLength === undefined) return anyString(rules);
  return quoted(rules.times(stringChar(rules), minLength, maxLength));
}

/** Matches a text of a format that is enforced; it is NEVER for others. */
export function formatGrammar(rules: GrammarRules, format: string): Gbnf {
  const expression = writtenFormat(format);
  return expression ? rules.named(`format-${format}`, () => expressionGrammar(rules, expression)) : NEVER;
}

/**
 * Returns the format to which a schema holds a string: none beside a pattern, or beside bounds of the length that it
 * does not keep by itself. `bounds` default to those of the schema.
 */
export function enforcedFormat(schema: SchemaObject, bounds = boundsOf(schema)): string | undefined {
  const { format, pattern } = schema;
  if (typeof format !== "string" || pattern !== undefined) return undefined;
  const expression = writtenFormat(format);
  if (expression === undefined) return undefined;
  const { minLength, maxLength = Number.POSITIVE_INFINITY } = lengthBounds(expression);
  const isRoomy = bounds.minLength <= minLength && maxLength <= (bounds.maxLength ?? Number.POSITIVE_INFINITY);
  return isRoomy ? format : undefined;
}

function boundsOf({ minLength, maxLength }: SchemaObject): LengthBounds {
  return {
    minLength: typeof minLength === "number" ? minLength : 0,
    maxLength: typeof maxLength === "number" ? maxLength : undefined,
  };
}

/** Matches the first pattern that a grammar can hold; what it leaves open is noted. */
function patternGrammar(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  minLength: number,
  maxLength: number | undefined,
): Gbnf | undefined {
  let inside: Gbnf | undefined;
  let chosen: string | undefined;
  for (const node of nodes) {
    const { pattern } = node.schema;
    if (typeof pattern !== "string" || pattern === chosen) continue;
    const found = inside === undefined ? stringPattern(conversion.rules, pattern, { minLength, maxLength }) : undefined;
    if (found === undefined) {
      conversion.skip(node, "pattern");
      continue;
    }
    inside = found.inside;
    chosen = pattern;
    if (found.minLength < minLength) skipAll(conversion, nodes, "minLength");
    const isShorter = maxLength === undefined || (found.maxLength !== undefined && found.maxLength <= maxLength);
    if (!isShorter) skipAll(conversion, nodes, "maxLength");
  }
  return inside;
}

function skipAll(conversion: Conversion, nodes: readonly PlainNode[], keyword: string): void {
  for (const node of nodes) if (numbers([node], keyword).length > 0) conversion.skip(node, keyword);
}
