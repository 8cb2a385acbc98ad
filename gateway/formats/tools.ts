import * as z from "zod";
import {
  type CacheBreakpoint,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from "../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../errors.ts";
import { isJsonObject, jsonText } from "../json/json-text.ts";
import { unchecked } from "./checked.ts";
import { invalidSchema, invalidValue, wrongType } from "./field-error.ts";

export const MAX_TOOLS = 512;

/** The name of a tool, wider than the formats' own rule: names of MCP tools hold dots and colons. */
export const toolName = z
  .string()
  .regex(/^[A-Za-z0-9_.:-]{1,128}$/, "expected 1 to 128 characters out of letters, digits, '_', '-', '.' and ':'.");

/** The schema of a tool that takes no arguments. */
export const EMPTY_PARAMETERS = '{"type":"object","properties":{}}';

export const allowedCallers = unchecked(z.array(z.string()).nullish()).describe(
  "What may call the tool. One without `direct` is not offered, as no other caller runs here. Default: `direct`.",
);

/** Whether the model itself may call a tool, by its `allowed_callers`. */
export function isDirect(callers: unknown): boolean {
  return !Array.isArray(callers) || callers.includes("direct");
}

type ToolSource = {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly strict?: boolean | null | undefined;
};

/** A tool without `schema` takes no arguments. Throws `ApiError` for a schema beyond the limits. */
export function toolOf(
  { name, description, strict }: ToolSource,
  schema: unknown,
  path: FieldPath,
  cacheBreakpoint?: CacheBreakpoint | undefined,
): Tool {
  const isStrict = strict ?? false;
  const parametersJsonSchema =
    schema === undefined || schema === null ? EMPTY_PARAMETERS : schemaText(schema, path, "function", isStrict);
  return {
    name,
    description: description ?? "",
    parametersJsonSchema,
    strict: isStrict,
    deferred: false,
    cacheBreakpoint,
  };
}

/**
 * Returns whether `tool` repeats `known`, which has its name: agents declare tools twice by mistake. Throws `ApiError`
 * for a different tool.
 */
export function isRepeated(known: Tool, tool: Tool, path: FieldPath): boolean {
  const isSame = (["description", "parametersJsonSchema", "strict", "deferred"] as const).every(
    (key) => known[key] === tool[key],
  );
  if (isSame) return true;
  throw invalidValue([...path, "name"], "another tool of this name is declared, and differs.");
}

/** Tools stay in the prompt of a summary: they are part of the prefix that the engine has cached. */
export function noCalls(hasTools: boolean): ToolChoice | undefined {
  if (!hasTools) return undefined;
  return { mode: ToolChoiceMode.NONE, name: "", disableParallelCalls: false, allowedNames: [] };
}

/** The words of chat and responses for a choice of tools. */
export const CHOICE_MODES = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
} as const;

export const MAX_SCHEMA_BYTES = 256 * 1024;

/** A larger schema is beyond what an engine can enforce. */
export const MAX_STRICT_SCHEMA_BYTES = 64 * 1024;

/** The schema itself is the first level. */
export const MAX_SCHEMA_DEPTH = 64;

/** The keywords whose value maps names to schemas, so that a key below them is not a keyword. */
const NAME_MAPS: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "dependentSchemas",
  "dependencies",
  "definitions",
  "$defs",
]);

const DATA: ReadonlySet<string> = new Set(["const", "default", "enum", "examples", "example"]);

type Reading = "schema" | "names" | "data";

/**
 * Returns the JSON text of a caller's schema; `strict`: whether the whole schema is to be enforced. The engine decides
 * which keywords a grammar can express. Throws `ApiError` for a value that is not an object, and for a schema that is
 * too big, too deep, holds a number beyond the range of JSON readers or refers to another document.
 */
export function schemaText(schema: unknown, path: FieldPath, of: "response" | "function", strict: boolean): string {
  if (!isJsonObject(schema)) throw wrongType(path, "an object", schema);
  const fault = faultOf(schema, "schema", 1);
  if (fault) throw invalidSchema(path, fault, of);
  const text = jsonText(schema);
  const maxBytes = strict ? MAX_STRICT_SCHEMA_BYTES : MAX_SCHEMA_BYTES;
  if (Buffer.byteLength(text) > maxBytes)
    throw invalidSchema(path, `the ${strict ? "strict schema" : "schema"} is larger than ${maxBytes} bytes.`, of);
  return text;
}

/** Returns the fault of a value inside a schema as a sentence. The recursion is bounded by the limit it enforces. */
function faultOf(value: unknown, reading: Reading, depth: number): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return "a number is out of range.";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth > MAX_SCHEMA_DEPTH) return `the schema is nested deeper than ${MAX_SCHEMA_DEPTH} levels.`;
  const isList = Array.isArray(value);
  for (const [key, item] of Object.entries(value)) {
    // A schema compiler would fetch another document.
    const isReference = !isList && reading === "schema" && (key === "$ref" || key === "$dynamicRef");
    if (isReference && typeof item === "string" && !item.startsWith("#"))
      return "references may only point into the schema itself.";
    const fault = faultOf(item, isList ? reading : readingBelow(reading, key), depth + 1);
    if (fault) return fault;
  }
  return undefined;
}

function readingBelow(reading: Reading, key: string): Reading {
  if (reading === "data") return "data";
  if (reading === "names") return "schema";
  if (DATA.has(key)) return "data";
  return NAME_MAPS.has(key) ? "names" : "schema";
}
