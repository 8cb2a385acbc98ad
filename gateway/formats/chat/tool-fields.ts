import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { cacheBreakpoint } from "../cache-control.ts";
import { checked } from "../checked.ts";
import { invalidValue, unsupportedValue } from "../field-error.ts";
import { toolOf } from "../tools.ts";
import { type ChatBody, chatToolChoice, ONLY_FUNCTIONS } from "./schema.ts";

/** Reads the `tools` of a body. A tool without `parameters` takes none. Throws `ApiError` for a schema at fault. */
export function readTools(tools: ChatBody["tools"]): readonly Tool[] {
  return (tools ?? []).map((tool, index) => {
    const { parameters, ...definition } = tool.function;
    const breakpoint = cacheBreakpoint(tool.cache_control) ?? cacheBreakpoint(definition.cache_control);
    return toolOf(definition, parameters, ["tools", index, "function", "parameters"], breakpoint);
  });
}

const MODES = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
} as const;

const PATH = ["tool_choice"];

/**
 * Reads the `tool_choice` of a body; absent, it is `auto`. Undefined where there are no tools to choose from. Throws
 * `ApiError` when the choice needs a tool that `tools` does not hold.
 */
export function readToolChoice(value: unknown, tools: readonly Tool[], parallel: boolean): ToolChoice | undefined {
  const choice = { disableParallelCalls: !parallel, ...readMode(value) };
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

function readMode(value: unknown): Pick<ToolChoice, "mode" | "name" | "allowedNames"> {
  if (isJsonObject(value) && value.type === "custom") throw unsupportedValue([...PATH, "type"], ONLY_FUNCTIONS);
  const choice = checked(chatToolChoice, value, PATH) ?? "auto";
  if (typeof choice === "string") return { mode: MODES[choice], name: "", allowedNames: [] };
  if (choice.type === "function") return { mode: ToolChoiceMode.NAMED, name: choice.function.name, allowedNames: [] };
  const { mode, tools } = choice.allowed_tools;
  return { mode: MODES[mode], name: "", allowedNames: tools.map((tool) => tool.function.name) };
}
