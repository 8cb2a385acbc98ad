import type { CacheBreakpoint, Tool } from "../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../errors.ts";
import type { JsonObject } from "../json/json-text.ts";
import { invalidValue, missing, tooMany, wrongType } from "./field-error.ts";
import { schemaText } from "./json-schema-limits.ts";

/** The most tools that one request may have. */
export const MAX_TOOLS = 512;

/** The names that tools may have, wider than the formats' own rule: names of MCP tools hold dots and colons. */
export const TOOL_NAME = /^[A-Za-z0-9_.:-]{1,128}$/;

/** The schema of a tool that names none and so takes no arguments. */
export const EMPTY_PARAMETERS = '{"type":"object","properties":{}}';

/**
 * Reads the `tools` of a body as a list; null and absent are none. Throws `ApiError` `invalid_type` or
 * `array_above_max_length`.
 */
export function toolList(value: unknown, path: FieldPath): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw wrongType(path, "an array of tools", value);
  if (value.length > MAX_TOOLS) throw tooMany(path, MAX_TOOLS);
  return value;
}

/**
 * Reads a tool's name as the model will see it. Throws `ApiError` when it is missing, no string or not within the rule.
 */
export function toolName(value: unknown, path: FieldPath): string {
  if (value === undefined || value === null) throw missing(path);
  if (typeof value !== "string") throw wrongType(path, "a string", value);
  if (!TOOL_NAME.test(value))
    throw invalidValue(path, "expected 1 to 128 characters out of letters, digits, '_', '-', '.' and ':'.");
  return value;
}

/** How a format writes a tool down. */
export type ToolShape = {
  /** The key of the tool under which its schema stands. */
  readonly schemaKey: "parameters" | "input_schema";
  /** Whether a tool has to have a schema; otherwise one without takes no arguments. */
  readonly schemaRequired: boolean;
};

/**
 * Reads one tool out of the object that holds `name`, `description`, `strict` and the schema; `path` leads to that
 * object. Null is absent. Throws `ApiError` with the path of the field at fault.
 */
export function toolOf(
  source: JsonObject,
  path: FieldPath,
  shape: ToolShape,
  cacheBreakpoint?: CacheBreakpoint | undefined,
): Tool {
  const name = toolName(source.name, [...path, "name"]);
  const description = source.description ?? "";
  if (typeof description !== "string") throw wrongType([...path, "description"], "a string", description);
  const strict = source.strict ?? false;
  if (typeof strict !== "boolean") throw wrongType([...path, "strict"], "a boolean", strict);
  return { name, description, parametersJsonSchema: parameters(source, path, shape, strict), strict, cacheBreakpoint };
}

function parameters(source: JsonObject, path: FieldPath, shape: ToolShape, strict: boolean): string {
  const schema = source[shape.schemaKey] ?? undefined;
  const schemaPath = [...path, shape.schemaKey];
  if (schema !== undefined) return schemaText(schema, schemaPath, "function", strict);
  if (shape.schemaRequired) throw missing(schemaPath);
  return EMPTY_PARAMETERS;
}
