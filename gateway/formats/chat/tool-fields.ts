import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { cacheBreakpoint } from "../cache-control.ts";
import { emptyArray, invalidValue, missing, oneOf, unsupportedValue, wrongType } from "../field-error.ts";
import { toolList, toolOf } from "../tools.ts";
import { requiredString } from "./content.ts";

/**
 * Reads the `tools` of a body. A tool without `parameters` takes none. Throws `ApiError` with the path of the first
 * fault.
 */
export function readTools(value: unknown): readonly Tool[] {
  return toolList(value, ["tools"]).map((item, index) => readTool(item, ["tools", index]));
}

function readTool(tool: unknown, path: FieldPath): Tool {
  if (!isJsonObject(tool)) throw wrongType(path, "an object", tool);
  if (requiredString(tool.type, [...path, "type"]) !== "function")
    throw unsupportedValue([...path, "type"], "Only tools of the type 'function' are supported.");
  const definition = requiredObject(tool.function, [...path, "function"]);
  const breakpoint = cacheBreakpoint(tool.cache_control) ?? cacheBreakpoint(definition.cache_control);
  return toolOf(definition, [...path, "function"], { schemaKey: "parameters", schemaRequired: false }, breakpoint);
}

const MODES: ReadonlyMap<string, ToolChoiceMode> = new Map<string, ToolChoiceMode>([
  ["none", ToolChoiceMode.NONE],
  ["auto", ToolChoiceMode.AUTO],
  ["required", ToolChoiceMode.REQUIRED],
]);

const PATH = ["tool_choice"];

/**
 * Reads the `tool_choice` of a body; absent, it is `auto`. Undefined where there are no tools, as the engine then has
 * nothing to choose from. Throws `ApiError` when the choice needs a tool that `tools` does not hold.
 */
export function readToolChoice(value: unknown, tools: readonly Tool[], parallel: boolean): ToolChoice | undefined {
  const choice = { disableParallelCalls: !parallel, ...readMode(value ?? "auto") };
  if (tools.length === 0) {
    if (choice.mode === ToolChoiceMode.AUTO && choice.allowedNames.length === 0) return undefined;
    if (choice.mode === ToolChoiceMode.NONE) return undefined;
    throw invalidValue(PATH, "'tool_choice' is only allowed when 'tools' are specified.");
  }
  const known = new Set(tools.map((tool) => tool.name));
  const wanted = choice.mode === ToolChoiceMode.NAMED ? [choice.name] : choice.allowedNames;
  if (!wanted.every((name) => known.has(name)))
    throw invalidValue(PATH, "the named function is not one of those in 'tools'.");
  return choice;
}

type Mode = Pick<ToolChoice, "mode" | "name" | "allowedNames">;

function readMode(value: unknown): Mode {
  if (typeof value === "string") {
    const mode = MODES.get(value);
    if (mode === undefined) throw oneOf(PATH, [...MODES.keys()]);
    return { mode, name: "", allowedNames: [] };
  }
  if (!isJsonObject(value)) throw wrongType(PATH, "a string or an object", value);
  const typePath = [...PATH, "type"];
  const type = requiredString(value.type, typePath);
  if (type === "function") return { mode: ToolChoiceMode.NAMED, name: functionName(value, PATH), allowedNames: [] };
  if (type === "allowed_tools") return allowedTools(value);
  if (type === "custom") throw unsupportedValue(typePath, "Only tools of the type 'function' are supported.");
  throw oneOf(typePath, ["function", "allowed_tools"]);
}

function allowedTools(choice: JsonObject): Mode {
  const path = [...PATH, "allowed_tools"];
  const allowed = requiredObject(choice.allowed_tools, path);
  const mode = requiredString(allowed.mode, [...path, "mode"]);
  if (mode !== "auto" && mode !== "required") throw oneOf([...path, "mode"], ["auto", "required"]);
  const listPath = [...path, "tools"];
  if (allowed.tools === undefined || allowed.tools === null) throw missing(listPath);
  const list = toolList(allowed.tools, listPath);
  if (list.length === 0) throw emptyArray(listPath);
  return {
    mode: mode === "auto" ? ToolChoiceMode.AUTO : ToolChoiceMode.REQUIRED,
    name: "",
    allowedNames: list.map((item, index) => allowedName(item, [...listPath, index])),
  };
}

function allowedName(tool: unknown, path: FieldPath): string {
  if (!isJsonObject(tool)) throw wrongType(path, "an object", tool);
  if (requiredString(tool.type, [...path, "type"]) !== "function")
    throw unsupportedValue([...path, "type"], "Only tools of the type 'function' are supported.");
  return functionName(tool, path);
}

function functionName(holder: JsonObject, path: FieldPath): string {
  const functionPath = [...path, "function"];
  return requiredString(requiredObject(holder.function, functionPath).name, [...functionPath, "name"]);
}

function requiredObject(value: unknown, path: FieldPath): JsonObject {
  if (value === undefined || value === null) throw missing(path);
  if (!isJsonObject(value)) throw wrongType(path, "an object", value);
  return value;
}
