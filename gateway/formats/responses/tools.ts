import type * as z from "zod";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ApiError, FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue, missing, tooMany, unsupportedValue, wrongType } from "../field-error.ts";
import type { FormatSettings } from "../format.ts";
import { CHOICE_MODES, isRepeated, MAX_STRICT_SCHEMA_BYTES, MAX_TOOLS, toolName, toolOf } from "../tools.ts";
import { inputSchema } from "./custom-input.ts";
import { allowedTool, customTool, functionTool, namespaceTool, toolChoiceSchema } from "./schema.ts";

/** How the caller declared a tool. */
export type DeclaredTool = {
  readonly kind: "function" | "custom";
  readonly name: string;
  readonly namespace?: string | undefined;
};

/** Maps the model's name of a tool to its declaration; a plain function has no entry. */
export type ToolNames = ReadonlyMap<string, DeclaredTool>;

/** Other types are the caller's own text, which messages never repeat. */
const KNOWN_TOOL_TYPES: ReadonlySet<string> = new Set([
  ...["web_search", "web_search_preview", "file_search", "computer", "computer_use", "computer_use_preview"],
  ...["code_interpreter", "image_generation", "local_shell", "shell", "mcp", "apply_patch", "tool_search"],
  "programmatic_tool_calling",
]);

/** The version date at the end of some types. */
const DATED = /_\d{4}_\d{2}_\d{2}$/;

/** The tools of a request, flat, each by the name that the model sees. */
export class DeclaredTools {
  readonly tools: Tool[] = [];
  /** The paths of these tools in the body, in the same order. */
  readonly paths: FieldPath[] = [];
  /** The paths of their schemas. */
  readonly schemaPaths: FieldPath[] = [];
  readonly names = new Map<string, DeclaredTool>();
  readonly #known = new Map<string, { readonly tool: Tool; readonly declared: DeclaredTool }>();
  readonly #unsupported: FormatSettings["unsupportedTools"];

  constructor(unsupported: FormatSettings["unsupportedTools"]) {
    this.#unsupported = unsupported;
  }

  /**
   * Adds functions, `custom` tools and `namespace` groups of them. Returns them as a reply repeats them, with defaults.
   * Other types are refused with `ApiError`, or left out if so configured.
   */
  add(list: readonly unknown[], path: FieldPath): readonly JsonObject[] {
    return this.#walk(list, path, undefined);
  }

  /** Returns the declaration of the tool of this name; undefined if there is none. */
  find(name: string): DeclaredTool | undefined {
    return this.#known.get(name)?.declared;
  }

  /** A group may not hold groups. */
  #walk(list: readonly unknown[], path: FieldPath, namespace: string | undefined): readonly JsonObject[] {
    return list.flatMap((entry, index): readonly JsonObject[] => {
      const at = [...path, index];
      if (!isJsonObject(entry)) throw wrongType(at, "an object", entry);
      const type = entry.type;
      if (type === undefined || type === null) throw missing([...at, "type"]);
      if (type === "function") return [this.#function(entry, at, namespace)];
      if (type === "custom") return [this.#custom(entry, at, namespace)];
      if (type === "namespace" && namespace === undefined) {
        const { name, description, tools: inner } = checked(namespaceTool, entry, at);
        const echo = this.#walk(inner ?? [], [...at, "tools"], name);
        return [{ type: "namespace", name, description: description ?? null, tools: echo }];
      }
      if (this.#unsupported === "skip") return [];
      throw unsupportedTool(type, [...at, "type"]);
    });
  }

  #function(entry: JsonObject, path: FieldPath, namespace: string | undefined): JsonObject {
    const source = checked(functionTool, entry, path);
    const schemaPath = [...path, "parameters"];
    const tool = toolOf(source, source.parameters, schemaPath);
    // A tool without `strict` is strict where its schema allows it, and is not longer than engines can enforce.
    const isShort = Buffer.byteLength(tool.parametersJsonSchema) <= MAX_STRICT_SCHEMA_BYTES;
    const strict = source.strict ?? (isShort && strictCompatible(source.parameters));
    this.#add({ ...tool, strict }, { kind: "function", name: source.name, namespace }, path, schemaPath);
    return {
      type: "function",
      name: source.name,
      description: source.description ?? null,
      parameters: source.parameters ?? { type: "object", properties: {} },
      strict,
    };
  }

  #custom(entry: JsonObject, path: FieldPath, namespace: string | undefined): JsonObject {
    const { name, description, format, strict } = checked(customTool, entry, path);
    const schemaPath = [...path, "format"];
    const grammar = format?.type === "grammar" ? format : undefined;
    if (strict && grammar?.syntax === "lark")
      throw unsupportedValue(
        [...schemaPath, "syntax"],
        "A Lark grammar cannot be enforced: without 'strict' it is a hint to the model.",
      );
    const pattern = grammar?.syntax === "regex" ? wholeText(grammar.definition) : undefined;
    const hint = grammar && `The text follows this ${grammar.syntax} grammar:\n${grammar.definition}`;
    const words = [description, hint].filter((text) => text).join("\n\n");
    // Any engine can enforce one string; of a pattern, only the strict one is a promise.
    const source = { name, description: words, strict: strict ?? pattern === undefined };
    const tool = toolOf(source, inputSchema(pattern), schemaPath);
    this.#add(tool, { kind: "custom", name, namespace }, path, schemaPath);
    return { type: "custom", name, description: description ?? null, format: format ?? { type: "text" } };
  }

  /** Tools that were declared twice are one; two tools of one name are refused. */
  #add(source: Tool, declared: DeclaredTool, path: FieldPath, schemaPath: FieldPath): void {
    const name = checked(toolName, modelName(declared.namespace, declared.name), [...path, "name"]);
    const tool = { ...source, name };
    const known = this.#known.get(name);
    if (known && known.declared.kind === declared.kind && known.declared.name === declared.name) {
      if (isRepeated(known.tool, tool, path)) return;
    } else if (known) throw invalidValue([...path, "name"], "with its namespace, the name is that of another tool.");
    if (this.tools.length === MAX_TOOLS) throw tooMany(["tools"], MAX_TOOLS);
    this.#known.set(name, { tool, declared });
    this.tools.push(tool);
    this.paths.push(path);
    this.schemaPaths.push(schemaPath);
    if (declared.namespace !== undefined || declared.kind !== "function") this.names.set(name, declared);
  }
}

/** `path` leads to the type of the tool, or of the choice. */
function unsupportedTool(type: unknown, path: FieldPath): ApiError {
  const known = typeof type === "string" && KNOWN_TOOL_TYPES.has(type.replace(DATED, ""));
  const subject = known ? `The tool type '${type}'` : "This tool type";
  return unsupportedValue(path, `${subject} is not supported: only tools that the caller runs are.`);
}

/** Returns a regular expression of other dialects, which means the whole text, as a pattern of JSON Schema. */
function wholeText(expression: string): string {
  const inner = expression.replace(/^\^/, "").replace(/(?<!\\)\$$/, "");
  return `^(?:${inner.replaceAll("(?P<", "(?<")})$`;
}

const PATH = ["tool_choice"];

type ToolReference = z.infer<typeof allowedTool>;

/** Undefined when there are no tools, when only `none` and `auto` are accepted. Throws `ApiError`. */
export function toolChoice(value: unknown, declared: DeclaredTools, parallel: boolean): ToolChoice | undefined {
  const choice = value ?? "auto";
  if (declared.tools.length === 0) {
    if (choice === "auto" || choice === "none") return undefined;
    throw invalidValue(PATH, "a tool can only be required when 'tools' holds one.");
  }
  const base = { name: "", disableParallelCalls: !parallel, allowedNames: [] };
  if (isJsonObject(choice)) refuseUnsupported(choice.type, ["function", "custom", "allowed_tools"], PATH);
  const wanted = checked(toolChoiceSchema, choice, PATH) ?? "auto";
  if (typeof wanted === "string") return { ...base, mode: CHOICE_MODES[wanted] };
  if (wanted.type !== "allowed_tools")
    return { ...base, mode: ToolChoiceMode.NAMED, name: declaredName(wanted, PATH, declared) };
  const allowedNames = wanted.tools.map((entry, index) => {
    const path = [...PATH, "tools", index];
    if (isJsonObject(entry)) refuseUnsupported(entry.type, ["function", "custom"], path);
    return declaredName(checked(allowedTool, entry, path), path, declared);
  });
  return { ...base, mode: CHOICE_MODES[wanted.mode], allowedNames };
}

function refuseUnsupported(type: unknown, supported: readonly unknown[], path: FieldPath): void {
  if (type !== undefined && type !== null && !supported.includes(type)) throw unsupportedTool(type, [...path, "type"]);
}

function declaredName({ type, name, namespace }: ToolReference, path: FieldPath, declared: DeclaredTools): string {
  const known = modelName(namespace ?? undefined, name);
  if (declared.find(known)?.kind === type) return known;
  throw invalidValue(path, "the tool is not one of 'tools'.");
}

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
