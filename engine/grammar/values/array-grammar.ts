import { EMPTY, type Gbnf, literal, NEVER, optional, sequence } from "../../gbnf/gbnf.ts";
import { comma } from "../../gbnf/json-value.ts";
import type { SchemaNode } from "../schema/schema-document.ts";
import { isList } from "../schema/schema-document.ts";
import { atLeast, atMost, type Conversion, type PlainNode } from "../schema/schema-facets.ts";
import { countedItems } from "./counted-items.ts";

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
