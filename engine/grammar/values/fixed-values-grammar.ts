import { choice, type Gbnf } from "../../gbnf/gbnf.ts";
import { anyOfTexts, fixedValue, type JsonValue } from "../../gbnf/json-value.ts";
import { patternExpression } from "../expressions/string-pattern.ts";
import type { Conversion, PlainNode } from "../schema/schema-facets.ts";
import { keyword } from "../schema/schema-keywords.ts";
import type { SchemaValidator } from "../validation/schema-validator.ts";

const SCALAR_COST = 16;
const PARTS_COST = 48;
const OF_LISTED: ReadonlySet<string> = new Set(["enum", "const", "type"]);

export function fixedValuesGrammar(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  listed: readonly JsonValue[],
  validator: SchemaValidator,
): Gbnf {
  const { budget, rules } = conversion;
  for (const node of nodes)
    if (typeof node.schema.pattern === "string" && patternExpression(node.schema.pattern) === undefined)
      conversion.skip(node, "pattern");
  const asking = nodes.filter(asksMoreOfValues);
  const values = listed.filter((value) => asking.every((node) => validator.check(value, budget, node) !== "refused"));
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

function asksMoreOfValues({ schema }: PlainNode): boolean {
  return Object.keys(schema).some((name) => !OF_LISTED.has(name) && keyword(name) !== undefined);
}
