import type { JsonValue } from "../../gbnf/json-value.ts";
import type { WorkBudget } from "../../work-budget.ts";
import { isList, isObject, type SchemaObject } from "./schema-document.ts";
import { atLeast, atMost, numbers, type PlainNode } from "./schema-facets.ts";
import type { SchemaType } from "./schema-keywords.ts";

type Listed = ReadonlyMap<string, JsonValue>;

const KNOWN = new WeakMap<SchemaObject, Listed | undefined>();

/** The `enum` and `const` values that satisfy all nodes; undefined if no node lists any. Throws `WorkSpent`. */
export function fixedValues(
  nodes: readonly PlainNode[],
  types: ReadonlySet<SchemaType> | undefined,
  budget: WorkBudget,
): readonly JsonValue[] | undefined {
  let allowed: Listed | undefined;
  for (const { schema } of nodes) {
    const listed = listedValues(schema, budget);
    if (listed !== undefined) allowed = allowed === undefined ? listed : common(allowed, listed, budget);
  }
  if (allowed === undefined) return undefined;
  budget.pay(allowed.size);
  const length = lengthBounds(nodes);
  return [...allowed.values()].filter(
    (value) => isOfType(value, types) && (typeof value === "string" ? length(value, budget) : isInBounds(value, nodes)),
  );
}

/** Whether the `not` of a schema excludes only values that the schema lists, which `listedValues` applies. */
export function isListExclusion(schema: SchemaObject): boolean {
  const { not } = schema;
  if (!listsValues(schema) || !isObject(not) || !listsValues(not)) return false;
  return Object.keys(not).every((name) => name === "enum" || name === "const");
}

function listsValues(schema: SchemaObject): boolean {
  return isList(schema.enum) || Object.hasOwn(schema, "const");
}

export function listedValues(schema: SchemaObject, budget: WorkBudget): Listed | undefined {
  if (!listsValues(schema)) return undefined;
  if (KNOWN.has(schema)) return KNOWN.get(schema);
  let listed: Listed | undefined;
  for (const list of [schema.enum, Object.hasOwn(schema, "const") ? [schema.const ?? null] : undefined]) {
    if (!isList(list)) continue;
    budget.pay(list.length);
    const values = new Map<string, JsonValue>();
    for (const value of list) {
      const text = canonical(value);
      budget.payForText(text.length);
      values.set(text, value);
    }
    listed = listed === undefined ? values : common(listed, values, budget);
  }
  if (listed !== undefined && isListExclusion(schema) && isObject(schema.not)) {
    const excluded = listedValues(schema.not, budget) ?? new Map();
    budget.pay(listed.size);
    listed = new Map([...listed].filter(([text]) => !excluded.has(text)));
  }
  KNOWN.set(schema, listed);
  return listed;
}

function common(some: Listed, others: Listed, budget: WorkBudget): Listed {
  budget.pay(some.size);
  return new Map([...some].filter(([text]) => others.has(text)));
}

function isOfType(value: JsonValue, types: ReadonlySet<SchemaType> | undefined): boolean {
  if (types === undefined) return true;
  if (typeof value === "number") return types.has("number") || (types.has("integer") && Number.isInteger(value));
  if (value === null) return types.has("null");
  if (isList(value)) return types.has("array");
  return types.has(typeof value === "object" ? "object" : typeof value === "string" ? "string" : "boolean");
}

function lengthBounds(nodes: readonly PlainNode[]): (value: string, budget: WorkBudget) => boolean {
  const min = atLeast(nodes, "minLength");
  const max = atMost(nodes, "maxLength");
  return (value, budget) => {
    // A character is one or two UTF-16 units, so most lengths need no count of characters.
    if (min === 0 && (max === undefined || value.length <= max)) return true;
    budget.payForText(value.length);
    const { length } = [...value];
    return length >= min && length <= (max ?? length);
  };
}

function isInBounds(value: JsonValue, nodes: readonly PlainNode[]): boolean {
  if (typeof value !== "number") return true;
  return (
    numbers(nodes, "minimum").every((bound) => value >= bound) &&
    numbers(nodes, "maximum").every((bound) => value <= bound) &&
    numbers(nodes, "exclusiveMinimum").every((bound) => value > bound) &&
    numbers(nodes, "exclusiveMaximum").every((bound) => value < bound)
  );
}

/** Returns one text for equal values, whatever the order of keys. */
export function canonical(value: JsonValue): string {
  if (isList(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`).join()}}`;
}
