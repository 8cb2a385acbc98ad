import type * as z from "zod";
import { type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue } from "../field-error.ts";
import { functionChoice, toolChoiceSchema } from "./schema.ts";
import { modelName } from "./tool-names.ts";
import { type DeclaredTools, unsupportedTool } from "./tools.ts";

const MODES = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
} as const;

const PATH = ["tool_choice"];

type ToolReference = z.infer<typeof functionChoice>;

/**
 * Reads `tool_choice` ("Formats and choices of responses" in formats/README.md); absent is `auto`. Undefined when there
 * are no tools, when only `none` and `auto` are accepted. Throws `ApiError`.
 */
export function toolChoice(value: unknown, declared: DeclaredTools, parallel: boolean): ToolChoice | undefined {
  const choice = value ?? "auto";
  if (declared.tools.length === 0) {
    if (choice === "auto" || choice === "none") return undefined;
    throw invalidValue(PATH, "a tool can only be required when 'tools' holds one.");
  }
  const base = { name: "", disableParallelCalls: !parallel, allowedNames: [] };
  if (isJsonObject(choice)) refuseUnsupported(choice.type, ["function", "allowed_tools"], PATH);
  const wanted = checked(toolChoiceSchema, choice, PATH) ?? "auto";
  if (typeof wanted === "string") return { ...base, mode: MODES[wanted] };
  if (wanted.type === "function")
    return { ...base, mode: ToolChoiceMode.NAMED, name: declaredName(wanted, PATH, declared) };
  const allowedNames = wanted.tools.map((entry, index) => {
    const path = [...PATH, "tools", index];
    if (isJsonObject(entry)) refuseUnsupported(entry.type, ["function"], path);
    return declaredName(checked(functionChoice, entry, path), path, declared);
  });
  return { ...base, mode: MODES[wanted.mode], allowedNames };
}

function refuseUnsupported(type: unknown, supported: readonly unknown[], path: FieldPath): void {
  if (type !== undefined && type !== null && !supported.includes(type)) throw unsupportedTool(type, [...path, "type"]);
}

/** Returns the choice of no tool; undefined when there are none. */
export function noCalls({ tools }: DeclaredTools): ToolChoice | undefined {
  if (tools.length === 0) return undefined;
  return { mode: ToolChoiceMode.NONE, name: "", disableParallelCalls: false, allowedNames: [] };
}

/** Returns the model's name of a tool; `path` leads to the object that names the tool. */
function declaredName({ name, namespace }: ToolReference, path: FieldPath, declared: DeclaredTools): string {
  const known = modelName(namespace ?? undefined, name);
  if (declared.tools.some((tool) => tool.name === known)) return known;
  throw invalidValue(path, "the tool is not one of 'tools'.");
}
