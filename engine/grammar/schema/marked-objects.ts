import type { WorkBudget } from "../../work-budget.ts";
import { listedValues } from "./fixed-values.ts";
import { isList, isObject, type SchemaDocument, type SchemaNode } from "./schema-document.ts";

/** The most references that are followed to an object. */
const MAX_REFERENCES = 8;

/** A property whose values are listed, and whether the object must have it. */
type Mark = { readonly values: ReadonlyMap<string, unknown>; readonly isRequired: boolean };

/** The properties of an object whose values are listed, by name. */
export type Marks = ReadonlyMap<string, Mark>;

/**
 * Returns the marks by which a schema that allows objects only tells its objects from those of others, such as a `kind`
 * that is a `const`; undefined for another schema. Throws `EngineError` for a broken reference, and `WorkSpent`.
 */
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

/** Returns whether no object has the marks of both. Throws `WorkSpent`. */
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

/** Follows references that stand alone: beside other keywords they say only a part. */
function referred(node: SchemaNode, document: SchemaDocument): SchemaNode {
  let at = node;
  for (let i = 0; i < MAX_REFERENCES; i += 1) {
    const { schema } = at;
    if (!isObject(schema) || typeof schema.$ref !== "string" || Object.keys(schema).length > 1) return at;
    at = document.resolve(at) ?? at;
  }
  return at;
}
