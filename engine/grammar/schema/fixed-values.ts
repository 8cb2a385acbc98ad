import type { JsonValue } from "../../gbnf/json-value.ts";
import { isList, isObject } from "./schema-document.ts";
import { atLeast, atMost, numbers, type PlainNode } from "./schema-facets.ts";
import type { SchemaType } from "./schema-keywords.ts";

/**
 * Returns the values of `enum` and `const` that all nodes allow, by type and bounds too; undefined where none of them
 * fixes any.
 */
export function fixedValues(
  nodes: readonly PlainNode[],
  types: ReadonlySet<SchemaType> | undefined,
): readonly JsonValue[] | undefined {
  let allowed: Map<string, JsonValue> | undefined;
  for (const { schema } of nodes) {
    for (const list of [schema.enum, Object.hasOwn(schema, "const") ? [schema.const ?? null] : undefined]) {
      if (!isList(list)) continue;
      const values = new Map(list.map((value) => [canonical(value), value]));
      allowed = allowed === undefined ? values : new Map([...allowed].filter(([key]) => values.has(key)));
    }
  }
  if (allowed === undefined) return undefined;
  return [...allowed.values()].filter((value) => isOfType(value, types) && isInBounds(value, nodes));
}

function isOfType(value: JsonValue, types: ReadonlySet<SchemaType> | undefined): boolean {
  if (types === undefined) return true;
  if (typeof value === "number") return types.has("number") || (types.has("integer") && Number.isInteger(value));
  if (value === null) return types.has("null");
  if (isList(value)) return types.has("array");
  return types.has(typeof value === "object" ? "object" : typeof value === "string" ? "string" : "boolean");
}

function isInBounds(value: JsonValue, nodes: readonly PlainNode[]): boolean {
  if (typeof value === "string") {
    const { length } = [...value];
    return length >= atLeast(nodes, "minLength") && length <= (atMost(nodes, "maxLength") ?? length);
  }
  if (typeof value !== "number") return true;
  return (
    numbers(nodes, "minimum").every((bound) => value >= bound) &&
    numbers(nodes, "maximum").every((bound) => value <= bound) &&
    numbers(nodes, "exclusiveMinimum").every((bound) => value > bound) &&
    numbers(nodes, "exclusiveMaximum").every((bound) => value < bound)
  );
}

/** Writes the same text for equal values. */
export function canonical(value: JsonValue): string {
  if (isList(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonical(entry)}`).join()}}`;
}
