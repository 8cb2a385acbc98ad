import type * as z from "zod";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ApiError, FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue, missing, tooMany, unsupportedValue, wrongType } from "../field-error.ts";
import type { FormatSettings } from "../format.ts";
import { CHOICE_MODES, MAX_STRICT_SCHEMA_BYTES, MAX_TOOLS, toolName, toolOf } from "../tools.ts";
import { functionChoice, functionTool, namespaceTool, type ResponsesBody, toolChoiceSchema } from "./schema.ts";

export type DeclaredTools = {
  /** Flat, each by a name of its own. */
  readonly tools: readonly Tool[];
  /** The paths of these tools in the body, in the same order. */
  readonly paths: readonly FieldPath[];
  readonly names: ToolNames;
  /** The tools as the reply repeats them, namespaces and defaults included. */
  readonly echo: readonly JsonObject[];
};

/** Other types are the caller's own text, which messages never repeat. */
const KNOWN_TOOL_TYPES: ReadonlySet<string> = new Set([
  ...["web_search", "web_search_preview", "file_search", "computer", "computer_use", "computer_use_preview"],
  ...["code_interpreter", "image_generation", "local_shell", "shell", "mcp", "apply_patch", "custom", "tool_search"],
  "programmatic_tool_calling",
]);

/** The version date at the end of some types. */
const DATED = /_\d{4}_\d{2}_\d{2}$/;

/** Reads functions and `namespace` groups. Other types are refused with `ApiError`, or left out if so configured. */
export function declaredTools(
  list: ResponsesBody["tools"],
  unsupported: FormatSettings["unsupportedTools"],
): DeclaredTools {
  const tools: Tool[] = [];
  const paths: FieldPath[] = [];
  /** The namespace of each name that the model sees. */
  const seen = new Map<string, string | undefined>();
  const names = new Map<string, { readonly namespace: string; readonly name: string }>();

  const add = (entry: JsonObject, path: FieldPath, namespace: string | undefined): JsonObject => {
    const source = checked(functionTool, entry, path);
    const tool = toolOf(source, source.parameters, [...path, "parameters"]);
    const name = checked(toolName, modelName(namespace, tool.name), [...path, "name"]);
    if (seen.has(name) && seen.get(name) !== namespace)
      throw invalidValue([...path, "name"], "joined with its namespace, the name is that of another tool.");
    seen.set(name, namespace);
    if (tools.length === MAX_TOOLS) throw tooMany(["tools"], MAX_TOOLS);
    // A tool without `strict` is strict where its schema allows it, and is not longer than engines can enforce.
    const isShort = Buffer.byteLength(tool.parametersJsonSchema) <= MAX_STRICT_SCHEMA_BYTES;
    const declared = { ...tool, name, strict: source.strict ?? (isShort && strictCompatible(source.parameters)) };
    tools.push(declared);
    paths.push(path);
    if (namespace !== undefined) names.set(name, { namespace, name: tool.name });
    return functionEcho(source, tool.name, declared);
  };

  /** A group may not hold groups. */
  const walk = (list: readonly unknown[], path: FieldPath, namespace: string | undefined): readonly JsonObject[] =>
    list.flatMap((entry, index): readonly JsonObject[] => {
      const at = [...path, index];
      if (!isJsonObject(entry)) throw wrongType(at, "an object", entry);
      const type = entry.type;
      if (type === undefined || type === null) throw missing([...at, "type"]);
      if (type === "function") return [add(entry, at, namespace)];
      if (type === "namespace" && namespace === undefined) {
        const { name, description, tools: inner } = checked(namespaceTool, entry, at);
        const echo = walk(inner ?? [], [...at, "tools"], name);
        return [{ type: "namespace", name, description: description ?? null, tools: echo }];
      }
      if (unsupported === "skip") return [];
      throw unsupportedTool(type, [...at, "type"]);
    });

  const echo = walk(list ?? [], ["tools"], undefined);
  return { tools, paths, names, echo };
}

/** `path` leads to the type of the tool, or of the choice. */
function unsupportedTool(type: unknown, path: FieldPath): ApiError {
  const known = typeof type === "string" && KNOWN_TOOL_TYPES.has(type.replace(DATED, ""));
  const subject = known ? `The tool type '${type}'` : "This tool type";
  return unsupportedValue(path, `${subject} is not supported: only function tools that the caller runs are.`);
}

type FunctionTool = z.infer<typeof functionTool>;

function functionEcho(source: FunctionTool, name: string, tool: Tool): JsonObject {
  return {
    type: "function",
    name,
    description: source.description ?? null,
    parameters: source.parameters ?? { type: "object", properties: {} },
    strict: tool.strict,
  };
}

const PATH = ["tool_choice"];

type ToolReference = z.infer<typeof functionChoice>;

/** Undefined when there are no tools, when only `none` and `auto` are accepted. Throws `ApiError`. */
export function toolChoice(value: unknown, declared: DeclaredTools, parallel: boolean): ToolChoice | undefined {
  const choice = value ?? "auto";
  if (declared.tools.length === 0) {
    if (choice === "auto" || choice === "none") return undefined;
    throw invalidValue(PATH, "a tool can only be required when 'tools' holds one.");
  }
  const base = { name: "", disableParallelCalls: !parallel, allowedNames: [] };
  if (isJsonObject(choice)) refuseUnsupported(choice.type, ["function", "allowed_tools"], PATH);
  const wanted = checked(toolChoiceSchema, choice, PATH) ?? "auto";
  if (typeof wanted === "string") return { ...base, mode: CHOICE_MODES[wanted] };
  if (wanted.type === "function")
    return { ...base, mode: ToolChoiceMode.NAMED, name: declaredName(wanted, PATH, declared) };
  const allowedNames = wanted.tools.map((entry, index) => {
    const path = [...PATH, "tools", index];
    if (isJsonObject(entry)) refuseUnsupported(entry.type, ["function"], path);
    return declaredName(checked(functionChoice, entry, path), path, declared);
  });
  return { ...base, mode: CHOICE_MODES[wanted.mode], allowedNames };
}

function refuseUnsupported(type: unknown, supported: readonly unknown[], path: FieldPath): void {
  if (type !== undefined && type !== null && !supported.includes(type)) throw unsupportedTool(type, [...path, "type"]);
}

export function noCalls({ tools }: DeclaredTools): ToolChoice | undefined {
  if (tools.length === 0) return undefined;
  return { mode: ToolChoiceMode.NONE, name: "", disableParallelCalls: false, allowedNames: [] };
}

function declaredName({ name, namespace }: ToolReference, path: FieldPath, declared: DeclaredTools): string {
  const known = modelName(namespace ?? undefined, name);
  if (declared.tools.some((tool) => tool.name === known)) return known;
  throw invalidValue(path, "the tool is not one of 'tools'.");
}

/** Maps the model's name of a tool to the name and the namespace under which the caller declared it. */
export type ToolNames = ReadonlyMap<string, { readonly namespace: string; readonly name: string }>;

/**
 * Returns the model's name of a tool. Inside a namespace it is joined from both; as two pairs may give the same text,
 * declared tools are checked for collisions, and the way back is a look-up, never a split.
 */
export function modelName(namespace: string | undefined, name: string): string {
  return namespace === undefined ? name : `${namespace}__${name}`;
}

/** The keywords that every grammar compiler supports. */
const STRICT_KEYWORDS: ReadonlySet<string> = new Set([
  ...["$schema", "title", "description", "type", "properties", "required", "additionalProperties", "items", "enum"],
  ...["const", "anyOf"],
]);

/** Returns whether a schema has closed objects, every property required, and only common keywords. */
function strictCompatible(schema: unknown): boolean {
  return isJsonObject(schema) && schema.type === "object" && isStrictSchema(schema);
}

function isStrictSchema(schema: unknown): boolean {
  if (!isJsonObject(schema) || !Object.keys(schema).every((key) => STRICT_KEYWORDS.has(key))) return false;
  const { items, anyOf, type, properties } = schema;
  if (items !== undefined && !isStrictSchema(items)) return false;
  if (anyOf !== undefined && !(Array.isArray(anyOf) && anyOf.every(isStrictSchema))) return false;
  const mayBeObject = properties !== undefined || [type].flat().includes("object");
  return !mayBeObject || isClosedObject(schema);
}

function isClosedObject({ properties, required, additionalProperties }: JsonObject): boolean {
  if (additionalProperties !== false || !isJsonObject(properties) || !Array.isArray(required)) return false;
  const names = new Set(required);
  return Object.entries(properties).every(([name, schema]) => names.has(name) && isStrictSchema(schema));
}
