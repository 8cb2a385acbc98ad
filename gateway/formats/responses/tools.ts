import type * as z from "zod";
import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { ApiError, FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { hostedTool, invalidValue, missing, tooMany, unsupportedValue, wrongType } from "../field-error.ts";
import type { FormatSettings } from "../format.ts";
import { CHOICE_MODES, isDirect, isRepeated, MAX_STRICT_SCHEMA_BYTES, MAX_TOOLS, toolName, toolOf } from "../tools.ts";
import { inputSchema } from "./custom-input.ts";
import {
  allowedTool,
  customTool,
  functionTool,
  namespaceTool,
  searchTool,
  toolChoiceSchema,
  vendorTool,
} from "./tool-schema.ts";
import { isHosted, isVendorTool, VENDOR_TOOL_NAMES, type VendorToolName, vendorFunction } from "./vendor-tools.ts";

/** The name that the model sees of the caller's search. */
export const SEARCH = "tool_search";

/** The place of a list of tools, or of one of them. */
type Declaring = {
  readonly path: FieldPath;
  readonly namespace: string | undefined;
  /** Of an item: the names of its tools that a message has to declare, and whether its new tools are such. */
  readonly later: { readonly names: Set<string>; readonly deferred: boolean } | undefined;
};

/** How the caller declared a tool. */
export type DeclaredTool = {
  readonly kind: "function" | "custom" | "tool_search" | VendorToolName;
  readonly name: string;
  readonly namespace?: string | undefined;
};

/** Maps the model's name of a tool to its declaration; a plain function has no entry. */
export type ToolNames = ReadonlyMap<string, DeclaredTool>;

/** Other types are the caller's own text, which messages never repeat. */
const KNOWN_TOOL_TYPES: ReadonlySet<string> = new Set([
  ...["web_search", "web_search_preview", "file_search", "computer", "computer_use", "computer_use_preview"],
  ...["code_interpreter", "image_generation", "shell", "mcp", "tool_search"],
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
  readonly #known = new Map<string, { readonly place: number; readonly declared: DeclaredTool }>();
  readonly #unsupported: FormatSettings["unsupportedTools"];
  /** Whether the caller has a search that shows tools with `defer_loading`. */
  #hasSearch = false;

  constructor(unsupported: FormatSettings["unsupportedTools"]) {
    this.#unsupported = unsupported;
  }

  /**
   * Adds functions, `custom` tools, the caller's search of tools, and `namespace` groups. Returns them as a reply repeats
   * them, with defaults. Other types are refused with `ApiError`, or left out if so configured.
   */
  add(list: readonly unknown[], path: FieldPath): readonly JsonObject[] {
    return this.#walk(list, { path, namespace: undefined, later: undefined });
  }

  /**
   * Adds the tools of an item, which replace earlier tools of their names. `deferred`: the model reads new ones where a
   * message declares them. Returns the names of those that need it.
   */
  addOfItem(list: readonly unknown[], path: FieldPath, deferred: boolean): readonly string[] {
    const names = new Set<string>();
    this.#walk(list, { path, namespace: undefined, later: { names, deferred } });
    return [...names];
  }

  /**
   * Returns the tools for the engine, and which of them the model can call: not deferred, or of the names `declared` by
   * messages. Without a search nothing else would show tools with `defer_loading`, so that they are tools like others.
   */
  shown(declared: ReadonlySet<string>): { readonly tools: readonly Tool[]; readonly callable: ReadonlySet<string> } {
    const visible = this.tools.filter(({ name, deferred }) => !deferred || declared.has(name));
    const callable = new Set(visible.map(({ name }) => name));
    if (this.#hasSearch) return { tools: this.tools, callable };
    const tools = this.tools.map((tool) => (callable.has(tool.name) ? tool : { ...tool, deferred: false }));
    return { tools, callable: new Set(tools.map(({ name }) => name)) };
  }

  /** Returns the declaration of the tool of this name; undefined if there is none. */
  find(name: string): DeclaredTool | undefined {
    return this.#known.get(name)?.declared;
  }

  /** A group may not hold groups. */
  #walk(list: readonly unknown[], { path, ...of }: Declaring): readonly JsonObject[] {
    return list.flatMap((entry, index): readonly JsonObject[] => {
      const at = { ...of, path: [...path, index] };
      if (!isJsonObject(entry)) throw wrongType(at.path, "an object", entry);
      const { type } = entry;
      if (type === undefined || type === null) throw missing([...at.path, "type"]);
      if ((type === "function" || type === "custom") && !isDirect(entry.allowed_callers)) return [];
      if (type === "function") return [this.#function(entry, at)];
      if (type === "custom") return [this.#custom(entry, at)];
      if (of.namespace === undefined && type === "tool_search" && entry.execution === "client")
        return [this.#search(entry, at)];
      if (of.namespace === undefined && isVendorTool(entry) && !(isHosted(entry) && this.#unsupported === "skip"))
        return [this.#vendorTool(entry, at)];
      if (of.namespace === undefined && type === "namespace") {
        const { name, description, tools: inner } = checked(namespaceTool, entry, at.path);
        const echo = this.#walk(inner ?? [], { ...of, path: [...at.path, "tools"], namespace: name });
        return [{ type: "namespace", name, description: description ?? null, tools: echo }];
      }
      if (this.#unsupported === "skip") return [];
      throw unsupportedTool(type, [...at.path, "type"]);
    });
  }

  #function(entry: JsonObject, at: Declaring): JsonObject {
    const { parameters, defer_loading, ...source } = checked(functionTool, entry, at.path);
    const { name, description } = source;
    const schemaPath = [...at.path, "parameters"];
    const deferred = defer_loading ?? false;
    const tool = { ...functionOf(source, parameters, schemaPath), deferred };
    this.#add(tool, { kind: "function", name, namespace: at.namespace }, at, schemaPath);
    return {
      type: "function",
      name,
      description: description ?? null,
      parameters: parameters ?? { type: "object", properties: {} },
      strict: tool.strict,
      ...(deferred && { defer_loading: true }),
    };
  }

  #custom(entry: JsonObject, at: Declaring): JsonObject {
    const { name, description, format, strict, defer_loading } = checked(customTool, entry, at.path);
    const schemaPath = [...at.path, "format"];
    const grammar = format?.type === "grammar" ? format : undefined;
    if (strict && grammar?.syntax === "lark")
      throw unsupportedValue(
        [...schemaPath, "syntax"],
        "A Lark grammar cannot be enforced: without 'strict' it is a hint to the model.",
      );
    const pattern = grammar?.syntax === "regex" ? wholeText(grammar.definition) : undefined;
    const hint = grammar && `The text follows this ${grammar.syntax} grammar:\n${grammar.definition}`;
    const words = [description, hint].filter((text) => text).join("\n\n");
    const deferred = defer_loading ?? false;
    // Any engine can enforce one string, but not any pattern.
    const source = { name, description: words, strict: strict ?? pattern === undefined };
    const declared: DeclaredTool = { kind: "custom", name, namespace: at.namespace };
    this.#add({ ...toolOf(source, inputSchema(pattern), schemaPath), deferred }, declared, at, schemaPath);
    return {
      type: "custom",
      name,
      description: description ?? null,
      format: format ?? { type: "text" },
      ...(deferred && { defer_loading: true }),
    };
  }

  #search(entry: JsonObject, at: Declaring): JsonObject {
    const { description, parameters } = checked(searchTool, entry, at.path);
    const schemaPath = [...at.path, "parameters"];
    const tool = functionOf({ name: SEARCH, description }, parameters, schemaPath);
    this.#add(tool, { kind: "tool_search", name: SEARCH }, at, schemaPath);
    this.#hasSearch = true;
    const echo = { description: description ?? null, parameters: parameters ?? null };
    return { type: "tool_search", execution: "client", ...echo };
  }

  #vendorTool(entry: JsonObject, at: Declaring): JsonObject {
    const { type: name, ...fields } = checked(vendorTool, entry, at.path);
    if (isHosted(entry)) throw unsupportedValue([...at.path, "environment"], "No containers run here, only 'local'.");
    const { source, schema } = vendorFunction(name, entry);
    this.#add(toolOf(source, schema, at.path), { kind: name, name }, at, at.path);
    return { type: name, ...fields };
  }

  /** In `tools`, a tool that was declared twice is one, and two tools of one name are refused. */
  #add(source: Tool, declared: DeclaredTool, { path, later }: Declaring, schemaPath: FieldPath): void {
    const name = checked(toolName, modelName(declared.namespace, declared.name), [...path, "name"]);
    const tool = { ...source, name, deferred: source.deferred || (later?.deferred ?? false) };
    const known = this.#known.get(name);
    if (known && (known.declared.kind !== declared.kind || known.declared.name !== declared.name))
      throw invalidValue([...path, "name"], "with its namespace, the name is that of another tool.");
    const earlier = known && this.tools[known.place];
    if (earlier && !later && isRepeated(earlier, tool, path)) return;
    const place = known?.place ?? this.tools.length;
    if (place === MAX_TOOLS) throw tooMany(path.slice(0, path.indexOf("tools") + 1), MAX_TOOLS);
    this.#known.set(name, { place, declared });
    this.tools[place] = { ...tool, deferred: earlier?.deferred ?? tool.deferred };
    this.paths[place] = path;
    this.schemaPaths[place] = schemaPath;
    if (declared.namespace !== undefined || declared.kind !== "function") this.names.set(name, declared);
    if (this.tools[place].deferred) later?.names.add(name);
  }
}

/** A tool that does not say whether it is strict is so where its schema allows it, and is not longer than engines can enforce. */
function functionOf(source: Parameters<typeof toolOf>[0], parameters: unknown, path: FieldPath): Tool {
  const tool = toolOf(source, parameters, path);
  const isShort = Buffer.byteLength(tool.parametersJsonSchema) <= MAX_STRICT_SCHEMA_BYTES;
  return { ...tool, strict: source.strict ?? (isShort && strictCompatible(parameters)) };
}

/** `path` leads to the type of the tool, or of the choice. */
function unsupportedTool(type: unknown, path: FieldPath): ApiError {
  const known = typeof type === "string" && KNOWN_TOOL_TYPES.has(type.replace(DATED, ""));
  const subject = known ? `The tool type '${type}'` : "This tool type";
  return hostedTool(subject, path);
}

/** Returns a regular expression of other dialects, which means the whole text, as a pattern of JSON Schema. */
function wholeText(expression: string): string {
  const inner = expression.replace(/^\^/, "").replace(/(?<!\\)\$$/, "");
  return `^(?:${inner.replaceAll("(?P<", "(?<")})$`;
}

const PATH = ["tool_choice"];

/** The types of tools that a choice can name. */
const CHOOSABLE: readonly string[] = ["function", "custom", ...VENDOR_TOOL_NAMES];

type ToolReference = z.infer<typeof allowedTool>;

type Choosing = {
  readonly declared: DeclaredTools;
  readonly callable: ReadonlySet<string>;
  readonly parallel: boolean;
};

/** Undefined when there are no tools to call, when only `none` and `auto` are accepted. Throws `ApiError`. */
export function toolChoice(value: unknown, { declared, callable, parallel }: Choosing): ToolChoice | undefined {
  const choice = value ?? "auto";
  const nameOf = (wanted: ToolReference, path: FieldPath): string => {
    const { type } = wanted;
    const known = "name" in wanted ? modelName(wanted.namespace ?? undefined, wanted.name) : wanted.type;
    if (callable.has(known) && declared.find(known)?.kind === type) return known;
    throw invalidValue(path, "the tool is not one of 'tools'.");
  };
  if (callable.size === 0) {
    if (choice === "auto" || choice === "none") return undefined;
    throw invalidValue(PATH, "a tool can only be required when 'tools' holds one.");
  }
  const base = { name: "", disableParallelCalls: !parallel, allowedNames: [] };
  if (isJsonObject(choice)) refuseUnsupported(choice.type, [...CHOOSABLE, "allowed_tools"], PATH);
  const wanted = checked(toolChoiceSchema, choice, PATH) ?? "auto";
  if (typeof wanted === "string") return { ...base, mode: CHOICE_MODES[wanted] };
  if (wanted.type !== "allowed_tools") return { ...base, mode: ToolChoiceMode.NAMED, name: nameOf(wanted, PATH) };
  const allowedNames = wanted.tools.map((entry, index) => {
    const path = [...PATH, "tools", index];
    if (isJsonObject(entry)) refuseUnsupported(entry.type, CHOOSABLE, path);
    return nameOf(checked(allowedTool, entry, path), path);
  });
  return { ...base, mode: CHOICE_MODES[wanted.mode], allowedNames };
}

function refuseUnsupported(type: unknown, supported: readonly unknown[], path: FieldPath): void {
  if (type !== undefined && type !== null && !supported.includes(type)) throw unsupportedTool(type, [...path, "type"]);
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
