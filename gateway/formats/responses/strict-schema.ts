import { isJsonObject, type JsonObject } from "../../json/json-text.ts";

/** The keywords that every grammar compiler supports. */
const STRICT_KEYWORDS: ReadonlySet<string> = new Set([
  "$schema",
  "title",
  "description",
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "enum",
  "const",
  "anyOf",
]);

/**
 * Returns whether a tool without `strict` is taken as strict: this format does so where the schema allows it ("Formats
 * and choices of responses" in formats/README.md): closed objects, every property required, and only common keywords.
 * `schema` has passed the limits on depth.
 */
export function strictCompatible(schema: unknown): boolean {
  return isJsonObject(schema) && schema.type === "object" && isStrict(schema);
}

function isStrict(schema: unknown): boolean {
  if (!isJsonObject(schema) || !Object.keys(schema).every((key) => STRICT_KEYWORDS.has(key))) return false;
  const { items, anyOf } = schema;
  if (items !== undefined && !isStrict(items)) return false;
  if (anyOf !== undefined && !(Array.isArray(anyOf) && anyOf.every(isStrict))) return false;
  return mayBeObject(schema) ? isClosedObject(schema) : true;
}

function mayBeObject({ type, properties }: JsonObject): boolean {
  return type === "object" || properties !== undefined || (Array.isArray(type) && type.includes("object"));
}

function isClosedObject({ properties, required, additionalProperties }: JsonObject): boolean {
  if (additionalProperties !== false || !isJsonObject(properties) || !Array.isArray(required)) return false;
  const names = new Set(required);
  return Object.entries(properties).every(([name, schema]) => names.has(name) && isStrict(schema));
}
