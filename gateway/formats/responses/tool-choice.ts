import { type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { emptyArray, invalidValue, missing, oneOf, wrongType } from "../field-error.ts";
import { modelName } from "./tool-names.ts";
import { type DeclaredTools, unsupportedTool } from "./tools.ts";

const MODES = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
} as const;

const PATH = ["tool_choice"];

/**
 * Reads `tool_choice` ("Formats and choices of responses" in formats/README.md); absent is `auto`. Undefined when there
 * are no tools, where only `none` and `auto` make sense. Throws `ApiError`.
 */
export function toolChoice(value: unknown, declared: DeclaredTools, parallel: boolean): ToolChoice | undefined {
  const choice = value ?? "auto";
  if (declared.tools.length === 0) {
    if (choice === "auto" || choice === "none") return undefined;
    throw invalidValue(PATH, "a tool can only be required when 'tools' holds one.");
  }
  const base = { name: "", disableParallelCalls: !parallel, allowedNames: [] };
  if (typeof choice === "string") {
    if (!isMode(choice)) throw oneOf(PATH, Object.keys(MODES));
    return { ...base, mode: MODES[choice] };
  }
  if (!isJsonObject(choice)) throw wrongType(PATH, "a string or an object", choice);
  const { type } = choice;
  if (type === undefined || type === null) throw missing([...PATH, "type"]);
  if (type === "function") return { ...base, mode: ToolChoiceMode.NAMED, name: declaredName(choice, PATH, declared) };
  if (type !== "allowed_tools") throw unsupportedTool(type, [...PATH, "type"]);
  return { ...base, ...allowedTools(choice, declared) };
}

/** Returns the choice that no tool is called; undefined when there are none. */
export function noCalls({ tools }: DeclaredTools): ToolChoice | undefined {
  if (tools.length === 0) return undefined;
  return { mode: ToolChoiceMode.NONE, name: "", disableParallelCalls: false, allowedNames: [] };
}

function isMode(text: string): text is keyof typeof MODES {
  return Object.hasOwn(MODES, text);
}

function allowedTools({ mode, tools }: JsonObject, declared: DeclaredTools) {
  const modePath = [...PATH, "mode"];
  if (mode === undefined || mode === null) throw missing(modePath);
  if (mode !== "auto" && mode !== "required") throw oneOf(modePath, ["auto", "required"]);
  const path = [...PATH, "tools"];
  if (tools === undefined || tools === null) throw missing(path);
  if (!Array.isArray(tools)) throw wrongType(path, "an array of tools", tools);
  if (tools.length === 0) throw emptyArray(path);
  const allowedNames = tools.map((entry: unknown, index) => {
    const at = [...path, index];
    if (!isJsonObject(entry)) throw wrongType(at, "an object", entry);
    if (entry.type !== "function") throw unsupportedTool(entry.type, [...at, "type"]);
    return declaredName(entry, at, declared);
  });
  return { mode: MODES[mode], allowedNames };
}

/** Returns a tool's name as the model knows it; `path` leads to the object that names the tool. */
function declaredName({ name, namespace }: JsonObject, path: FieldPath, declared: DeclaredTools): string {
  if (name === undefined || name === null) throw missing([...path, "name"]);
  if (typeof name !== "string") throw wrongType([...path, "name"], "a string", name);
  const group = namespace ?? undefined;
  if (group !== undefined && typeof group !== "string") throw wrongType([...path, "namespace"], "a string", group);
  const known = modelName(group, name);
  if (declared.tools.some((tool) => tool.name === known)) return known;
  throw invalidValue(path, "the tool is not one of 'tools'.");
}
