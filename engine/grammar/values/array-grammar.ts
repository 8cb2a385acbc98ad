import { choice, EMPTY, type Gbnf, literal, NEVER, optional, sequence } from "../../gbnf/gbnf.ts";
import { anyOfTexts, comma, fixedValue, type JsonValue } from "../../gbnf/json-value.ts";
import {
  allowedTypes,
  alternatives,
  atLeast,
  atMost,
  type Conversion,
  fixedValues,
  type PlainNode,
} from "../schema/schema-alternatives.ts";
import { isList, type SchemaNode } from "../schema/schema-document.ts";

type Items = { readonly others: readonly SchemaNode[]; readonly min: number; readonly max: number | undefined };

/** The maximum distinct values under `uniqueItems`: each set of used ones is a rule. */
const MAX_UNIQUE = 7;
const MAX_COUNTS = 256;

/** Items under `uniqueItems` or `contains`; undefined without these or beyond the limits. */
function countedItems(conversion: Conversion, nodes: readonly PlainNode[], items: Items): Gbnf | undefined {
  const isUnique = nodes.some(({ schema }) => schema.uniqueItems === true) && (items.max ?? 2) > 1;
  const asking = nodes.filter(
    ({ schema }) => schema.contains !== undefined && (schema.minContains !== 0 || schema.maxContains !== undefined),
  );
  if (isUnique) return asking.length > 0 ? undefined : uniqueItems(conversion, items);
  const [only] = asking;
  return asking.length === 1 && only !== undefined ? containing(conversion, only, items) : undefined;
}

function uniqueItems(conversion: Conversion, { others, min, max }: Items): Gbnf | undefined {
  const values = listedItems(conversion, others);
  if (values === undefined || values.length > MAX_UNIQUE) return undefined;
  const { rules } = conversion;
  const texts = values.map((value) =>
    typeof value === "object" && value !== null ? fixedValue(rules, value) : anyOfTexts([JSON.stringify(value)]),
  );
  /** Matches the items after a set of used values, a bit mask. */
  const behind = rules.keyed((taken: number): Gbnf => {
    const count = values.filter((_, at) => taken & (1 << at)).length;
    const next = texts.flatMap((text, at) => {
      if (taken & (1 << at) || count >= (max ?? texts.length)) return [];
      return [sequence(...(count > 0 ? [comma(rules)] : []), text, behind(taken | (1 << at)))];
    });
    return choice(...next, ...(count >= min ? [EMPTY] : []));
  });
  return behind(0);
}

function listedItems(conversion: Conversion, others: readonly SchemaNode[]): readonly JsonValue[] | undefined {
  const { budget } = conversion;
  const found = new Map<string, JsonValue>();
  for (const nodes of alternatives(others, conversion)) {
    const types = allowedTypes(nodes, budget);
    const values =
      fixedValues(conversion, nodes, types) ?? (types?.size === 1 && types.has("boolean") ? [true, false] : undefined);
    if (values === undefined) return undefined;
    for (const value of values) found.set(JSON.stringify(value), value);
  }
  budget.payForText([...found.keys()].reduce((sum, text) => sum + text.length, 0));
  return [...found.values()];
}

/** Each item matches `contains` or its negation, so that a text has one reading. */
function containing(conversion: Conversion, node: PlainNode, { others, min, max }: Items): Gbnf | undefined {
  const { contains = true, minContains, maxContains } = node.schema;
  const opposite = conversion.negation?.of(contains);
  if (opposite === undefined) return undefined;
  const least = typeof minContains === "number" ? minContains : 1;
  const most = typeof maxContains === "number" ? maxContains : undefined;
  const lengths = Math.max(1, min, max === undefined ? 0 : max + 1);
  const matches = Math.max(least, most === undefined ? 0 : most + 1);
  if (lengths * (matches + 1) > MAX_COUNTS) return undefined;
  const { rules } = conversion;
  const ofKind = (schema: JsonValue) => {
    const item = conversion.value([...others, conversion.child(node, schema, "contains")]);
    return rules.fresh(() => item);
  };
  const [match, other] = [ofKind(contains), ofKind(opposite)];
  const behind = rules.keyed((length: number, matched: number): Gbnf => {
    const next = (item: Gbnf, more: number) => {
      const [longer, found] = [Math.min(length + 1, lengths), Math.min(matched + more, matches)];
      if (longer > (max ?? longer) || found > (most ?? found)) return NEVER;
      return sequence(...(length > 0 ? [comma(rules)] : []), item, behind(longer, found));
    };
    const isEnough = length >= min && matched >= least;
    return choice(next(match, 1), next(other, 0), ...(isEnough ? [EMPTY] : []));
  });
  return behind(0, 0);
}

/** Items after a prefix are allowed only if `items` or `minItems` asks for them. */
export function arrayGrammar(conversion: Conversion, nodes: readonly PlainNode[]): Gbnf {
  const { rules } = conversion;
  const prefixLength = Math.max(0, ...nodes.map((node) => prefixOf(node).length));
  const min = atLeast(nodes, "minItems");
  const others = nodes.flatMap((node) => otherItems(conversion, node) ?? []);
  const isClosed =
    others.some(({ schema }) => schema === false) || (prefixLength > 0 && others.length === 0 && min <= prefixLength);
  const bound = atMost(nodes, "maxItems") ?? Number.POSITIVE_INFINITY;
  const limit = isClosed ? Math.min(bound, prefixLength) : bound;
  const max = limit === Number.POSITIVE_INFINITY ? undefined : limit;
  if (min > limit) return NEVER;
  const inBrackets = (inside: Gbnf) => sequence(literal("["), inside, literal("]"));
  const isPlain = prefixLength === 0 && !isClosed;
  const counted = isPlain ? countedItems(conversion, nodes, { others, min, max }) : undefined;
  if (counted !== undefined) return inBrackets(counted);
  for (const node of nodes) {
    if (node.schema.uniqueItems === true && limit > 1) conversion.skip(node, "uniqueItems");
    if (node.schema.contains !== undefined && node.schema.minContains !== 0) conversion.skip(node, "contains");
    if (node.schema.contains !== undefined && node.schema.maxContains !== undefined) conversion.skip(node, "contains");
  }
  const item = isClosed ? NEVER : conversion.value(others);
  const inside =
    prefixLength === 0
      ? rules.list(item, comma(rules), min, max)
      : withPrefix(conversion, nodes, { length: prefixLength, item, min, max });
  return inBrackets(inside);
}

type PrefixedList = {
  readonly length: number;
  readonly item: Gbnf;
  readonly min: number;
  readonly max: number | undefined;
};

function withPrefix(
  conversion: Conversion,
  nodes: readonly PlainNode[],
  { length, item, min, max }: PrefixedList,
): Gbnf {
  const { rules } = conversion;
  const most = max ?? Number.POSITIVE_INFINITY;
  const next = rules.fresh(() => sequence(comma(rules), item));
  let after = most > length ? rules.times(next, Math.max(min - length, 0), max && max - length) : EMPTY;
  for (let i = length - 1; i >= 0; i -= 1) {
    rules.budget.pay(nodes.length);
    if (i >= most) continue;
    const here = conversion.value(nodes.flatMap((node) => itemAt(conversion, node, i) ?? []));
    const behind = after;
    const some = rules.fresh(() => (i === 0 ? sequence(here, behind) : sequence(comma(rules), here, behind)));
    after = i >= min ? optional(some) : some;
  }
  return after;
}

function prefixOf({ schema }: PlainNode): readonly unknown[] {
  if (isList(schema.prefixItems)) return schema.prefixItems;
  return isList(schema.items) ? schema.items : [];
}

function itemAt(conversion: Conversion, node: PlainNode, index: number): SchemaNode | undefined {
  const keyword = isList(node.schema.prefixItems) ? "prefixItems" : "items";
  const list = node.schema[keyword];
  const schema = isList(list) ? list[index] : undefined;
  return schema === undefined ? otherItems(conversion, node) : conversion.child(node, schema, keyword, String(index));
}

function otherItems(conversion: Conversion, node: PlainNode): SchemaNode | undefined {
  const keyword = isList(node.schema.items) ? "additionalItems" : "items";
  const schema = node.schema[keyword];
  return schema === undefined ? undefined : conversion.child(node, schema, keyword);
}
