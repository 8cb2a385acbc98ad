import type { Tool } from "../../../proto/gen/svc/inference/v1/messages.ts";

export type JsonType = "string" | "number" | "boolean" | "null" | "object" | "array";

/** The types that a tool's schema allows for an argument; undefined: any. */
export type ArgumentTypes = (toolName: string, key: string) => ReadonlySet<JsonType> | undefined;

type Schema = Readonly<Record<string, unknown>>;

const JSON_TYPES: Readonly<Record<string, JsonType>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
  object: "object",
  array: "array",
};

/** References and alternatives inside each other; deeper ones allow anything. */
const MAX_DEPTH = 16;

/** Reads the types out of the tools' schemas, each when it is first asked for. What is no schema allows anything. */
export function argumentTypes(tools: readonly Pick<Tool, "name" | "parametersJsonSchema">[]): ArgumentTypes {
  const texts = new Map(tools.map(({ name, parametersJsonSchema }) => [name, parametersJsonSchema]));
  const roots = new Map<string, unknown>();
  return (toolName, key) => {
    if (!roots.has(toolName)) roots.set(toolName, parsed(texts.get(toolName) ?? ""));
    const root = roots.get(toolName);
    const found = propertySchemas(root, key, root, 0);
    return intersection(found.map((schema) => typesOf(schema, root, 0)));
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Every schema that speaks of the property, itself or through `allOf` and the like. */
function propertySchemas(schema: unknown, key: string, root: unknown, depth: number): readonly unknown[] {
  if (!isSchema(schema) || depth > MAX_DEPTH) return [];
  const { properties } = schema;
  const own = isSchema(properties) && Object.hasOwn(properties, key) ? [properties[key]] : [];
  const inner = [referenced(schema, root), ...listOf(schema.allOf)];
  const alternatives = [...listOf(schema.anyOf), ...listOf(schema.oneOf)].flatMap((each) =>
    propertySchemas(each, key, root, depth + 1),
  );
  return [
    ...own,
    ...inner.flatMap((each) => propertySchemas(each, key, root, depth + 1)),
    ...(alternatives.length === 0 ? [] : [{ anyOf: alternatives }]),
  ];
}

function typesOf(schema: unknown, root: unknown, depth: number): ReadonlySet<JsonType> | undefined {
  if (!isSchema(schema) || depth > MAX_DEPTH) return undefined;
  const all = [referenced(schema, root), ...listOf(schema.allOf)].map((each) => typesOf(each, root, depth + 1));
  const alternatives = [schema.anyOf, schema.oneOf].map((list) =>
    union(listOf(list).map((each) => typesOf(each, root, depth + 1))),
  );
  return intersection([ownTypes(schema), ...all, ...alternatives]);
}

function ownTypes(schema: Schema): ReadonlySet<JsonType> | undefined {
  const { type } = schema;
  const named = (typeof type === "string" ? [type] : listOf(type)).flatMap((each) => JSON_TYPES[String(each)] ?? []);
  if (named.length > 0) return new Set(named);
  if (Object.hasOwn(schema, "const")) return new Set([jsonTypeOf(schema.const)]);
  if (Array.isArray(schema.enum)) return new Set(schema.enum.map(jsonTypeOf));
  if (schema.properties !== undefined) return new Set(["object"]);
  return schema.items === undefined ? undefined : new Set(["array"]);
}

function jsonTypeOf(value: unknown): JsonType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return JSON_TYPES[typeof value] ?? "object";
}

/** What a `$ref` inside the document names. */
function referenced(schema: Schema, root: unknown): unknown {
  const reference = schema.$ref;
  if (typeof reference !== "string" || !reference.startsWith("#")) return undefined;
  let value = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    value =
      typeof value === "object" && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
  }
  return value;
}

/** Undefined allows anything, so it takes nothing away. */
function intersection(sets: readonly (ReadonlySet<JsonType> | undefined)[]): ReadonlySet<JsonType> | undefined {
  let common: ReadonlySet<JsonType> | undefined;
  for (const set of sets) {
    if (set === undefined) continue;
    common = common === undefined ? set : new Set([...common].filter((type) => set.has(type)));
  }
  return common;
}

/** Undefined where there are no alternatives, or where one of them allows anything. */
function union(sets: readonly (ReadonlySet<JsonType> | undefined)[]): ReadonlySet<JsonType> | undefined {
  if (sets.length === 0 || sets.includes(undefined)) return undefined;
  return new Set(sets.flatMap((set) => [...(set ?? [])]));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
