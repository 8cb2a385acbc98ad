import type { Gbnf } from "../../gbnf/gbnf.ts";
import type { GrammarRules } from "../../gbnf/grammar-rules.ts";
import type { JsonValue } from "../../gbnf/json-value.ts";
import type { WorkBudget } from "../../work-budget.ts";
import type { Reading } from "./schema-alternatives.ts";
import { isList, isObject, type SchemaNode, type SchemaObject, shown } from "./schema-document.ts";
import { keyword, type SchemaType, TYPES } from "./schema-keywords.ts";

/** A node whose own keywords apply, together with those of the other nodes in a list. */
export type PlainNode = SchemaNode & { readonly schema: SchemaObject };

/** Undeclared members where a schema declares some and is silent about others: none, or any, as in JSON Schema. */
export type UndeclaredMembers = "declared" | "any";

export type Conversion = Reading & {
  readonly rules: GrammarRules;
  readonly undeclared: UndeclaredMembers;
  child(parent: PlainNode, schema: JsonValue, ...path: string[]): SchemaNode;
  value(nodes: readonly SchemaNode[]): Gbnf;
  tooCostly(node: PlainNode, keyword: string, what: string): never;
};

/**
 * Undefined for any. A schema without `type` but with keywords of some types allows only these: its author means them.
 */
export function allowedTypes(nodes: readonly PlainNode[], budget: WorkBudget): ReadonlySet<SchemaType> | undefined {
  let allowed: ReadonlySet<SchemaType> | undefined;
  for (const { schema } of nodes) {
    const types = namedTypes(schema, budget);
    if (types !== undefined) allowed = allowed === undefined ? types : commonTypes(allowed, types);
  }
  if (allowed !== undefined || nodes.some(({ schema }) => listsValues(schema))) return allowed;
  const implied = nodes.flatMap(({ schema }) => {
    const names = Object.keys(schema);
    budget.pay(names.length / 2);
    return names.flatMap((name) => keyword(name)?.type ?? []);
  });
  return implied.length === 0 ? undefined : new Set(implied);
}

function listsValues(schema: SchemaObject): boolean {
  return isList(schema.enum) || Object.hasOwn(schema, "const");
}

const SINGLE: ReadonlyMap<JsonValue, ReadonlySet<SchemaType>> = new Map(TYPES.map((type) => [type, new Set([type])]));

function namedTypes(schema: SchemaObject, budget: WorkBudget): ReadonlySet<SchemaType> | undefined {
  const { type } = schema;
  budget.pay(isList(type) ? 1 + type.length / 4 : 1);
  if (type === undefined) return undefined;
  const isNullable = schema.nullable === true;
  if (!isList(type) && !isNullable) return SINGLE.get(type);
  const names = isList(type) ? type : [type];
  const types = TYPES.filter((each) => names.includes(each));
  if (types.length === 0) return undefined;
  return new Set(isNullable ? [...types, "null"] : types);
}

/** Returns the types in both sets; every integer is a number. */
function commonTypes(a: ReadonlySet<SchemaType>, b: ReadonlySet<SchemaType>): ReadonlySet<SchemaType> {
  const has = (types: ReadonlySet<SchemaType>, type: SchemaType) =>
    types.has(type) || (type === "integer" && types.has("number"));
  return new Set(TYPES.filter((type) => has(a, type) && has(b, type)));
}

export function atLeast(nodes: readonly PlainNode[], keyword: string): number {
  let strictest = 0;
  for (const { schema } of nodes) {
    const bound = schema[keyword];
    if (typeof bound === "number" && bound > strictest) strictest = bound;
  }
  return strictest;
}

export function atMost(nodes: readonly PlainNode[], keyword: string): number | undefined {
  let strictest: number | undefined;
  for (const { schema } of nodes) {
    const bound = schema[keyword];
    if (typeof bound === "number" && (strictest === undefined || bound < strictest)) strictest = bound;
  }
  return strictest;
}

export function numbers(nodes: readonly PlainNode[], keyword: string): readonly number[] {
  return nodes.flatMap(({ schema }) => (typeof schema[keyword] === "number" ? [schema[keyword]] : []));
}

export function children(conversion: Conversion, nodes: readonly PlainNode[], keyword: string): readonly SchemaNode[] {
  const found: SchemaNode[] = [];
  for (const node of nodes) {
    const schema = node.schema[keyword];
    if (schema !== undefined) found.push(conversion.child(node, schema, keyword));
  }
  return found;
}

export function entryOf(conversion: Conversion, node: PlainNode, keyword: string, key: string): SchemaNode | undefined {
  const map = node.schema[keyword];
  const schema = isObject(map) && Object.hasOwn(map, key) ? map[key] : undefined;
  return schema === undefined ? undefined : conversion.child(node, schema, keyword, shown(key));
}
