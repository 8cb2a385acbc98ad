import type { WorkBudget } from "../../work-budget.ts";
import { listedValues } from "./fixed-values.ts";
import { isList, isObject, type SchemaDocument, type SchemaNode } from "./schema-document.ts";

const MAX_REFERENCES = 8;

type Mark = { readonly values: ReadonlyMap<string, unknown>; readonly isRequired: boolean };

/** The properties of an object with listed values (discriminators), by name. */
export type Marks = ReadonlyMap<string, Mark>;

/** Properties with listed values of a schema of objects, such as a `kind` with a `const`; undefined for others. */
export function marksOf(node: SchemaNode, document: SchemaDocument, budget: WorkBudget): Marks | undefined {
  const { schema } = referred(node, document);
  if (!isObject(schema) || schema.type !== "object" || schema.nullable === true || !isObject(schema.properties))
    return undefined;
  const names = new Set(isList(schema.required) ? schema.required : []);
  const properties = Object.entries(schema.properties);
  budget.pay(names.size + properties.length);
  const marks = new Map<string, Mark>();
  for (const [name, property] of properties) {
    const values = isObject(property) ? listedValues(property, budget) : undefined;
    if (values !== undefined) marks.set(name, { values, isRequired: names.has(name) });
  }
  return marks;
}

/** Returns whether no object can match both. Throws `WorkSpent`. */
export function areToldApart(some: Marks, others: Marks, budget: WorkBudget): boolean {
  for (const [name, mark] of some) {
    const other = others.get(name);
    budget.pay(1);
    if (other === undefined || !(mark.isRequired || other.isRequired)) continue;
    budget.pay(mark.values.size);
    if (![...mark.values.keys()].some((text) => other.values.has(text))) return true;
  }
  return false;
}

/** Follows a `$ref` without sibling keywords: with siblings the target is only a part of the schema. */
function referred(node: SchemaNode, document: SchemaDocument): SchemaNode {
  let at = node;
  for (let i = 0; i < MAX_REFERENCES; i += 1) {
    const { schema } = at;
    if (!isObject(schema) || typeof schema.$ref !== "string" || Object.keys(schema).length > 1) return at;
    at = document.resolve(at) ?? at;
  }
  return at;
}
