import { isList, isObject, type SchemaNode } from "../schema/schema-document.ts";
import type { Conversion, PlainNode } from "../schema/schema-facets.ts";
import { type Keys, memberNodes } from "./other-members.ts";

const LISTS = ["allOf", "anyOf", "oneOf"];
const SINGLE = ["if", "then", "else"];

/** Whether a schema evaluates a member, for `unevaluatedProperties: false`; undefined without it or if not enforced. */
export function evaluatedBy(
  conversion: Conversion,
  nodes: readonly PlainNode[],
): ((name: string, keys: Keys) => boolean) | undefined {
  const asking = nodes.filter(({ schema: { unevaluatedProperties: asked } }) => asked !== undefined && asked !== true);
  if (asking.length === 0) return undefined;
  const sources = nodes.filter(({ schema }) => !conversion.negation?.isMade(schema));
  const isOpen = sources.some(({ schema }) => schema.additionalProperties !== undefined);
  let isKept = true;
  for (const node of asking) {
    const below = reachedFrom(conversion, node);
    if (node.schema.unevaluatedProperties === false && sources.every(({ id }) => below.has(id))) continue;
    conversion.skip(node, "unevaluatedProperties");
    isKept = false;
  }
  if (!isKept || isOpen) return undefined;
  return (name, keys) => sources.some((node) => memberNodes(conversion, node, name, keys).length > 0);
}

function reachedFrom(conversion: Conversion, from: SchemaNode): ReadonlySet<number> {
  const { document } = conversion;
  const found = new Set<number>();
  const open = [from];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    conversion.rules.budget.pay(1);
    if (found.has(node.id)) continue;
    found.add(node.id);
    const { schema, pointer } = node;
    if (typeof schema === "boolean") continue;
    const target = document.resolve(node);
    if (target !== undefined) open.push(target);
    for (const keyword of LISTS) {
      const list = schema[keyword];
      if (isList(list))
        for (const [at, inner] of list.entries()) open.push(document.node(inner, `${pointer}/${keyword}/${at}`));
    }
    for (const keyword of SINGLE) {
      const inner = schema[keyword];
      if (inner !== undefined) open.push(document.node(inner, `${pointer}/${keyword}`));
    }
    for (const keyword of ["dependentSchemas", "dependencies"]) {
      const map = schema[keyword];
      if (!isObject(map)) continue;
      for (const inner of Object.values(map))
        if (!isList(inner)) open.push(document.node(inner, `${pointer}/${keyword}/*`));
    }
  }
  return found;
}
