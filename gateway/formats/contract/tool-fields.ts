import { type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { checked } from "../checked.ts";
import { invalidValue, oneOf, tooMany } from "../field-error.ts";
import { EMPTY_PARAMETERS, MAX_TOOLS, toolName } from "../tools.ts";
import { breakpointOf } from "./cache-fields.ts";
import { schemaAsSent } from "./schema-text.ts";

/** Checks the tools of a request. Throws `ApiError` with the path of the first fault. */
export function checkedTools(tools: readonly Tool[]): readonly Tool[] {
  if (tools.length > MAX_TOOLS) throw tooMany(["tools"], MAX_TOOLS);
  const names = new Set<string>();
  return tools.map((tool, index) => {
    const path = ["tools", index];
    const name = checked(toolName, tool.name === "" ? undefined : tool.name, [...path, "name"]);
    if (names.has(name)) throw invalidValue([...path, "name"], "another tool has the same name.");
    names.add(name);
    const { description, strict, parametersJsonSchema: text } = tool;
    const schemaPath = [...path, "parameters_json_schema"];
    const parametersJsonSchema = text === "" ? EMPTY_PARAMETERS : schemaAsSent(text, schemaPath, "function", strict);
    const cacheBreakpoint = breakpointOf(tool.cacheBreakpoint, path);
    return { name, description, parametersJsonSchema, strict, cacheBreakpoint };
  });
}

const MODES: ReadonlySet<number> = new Set(Object.values(ToolChoiceMode));

/**
 * Checks the choice of tools; undefined where there are no tools to choose from. Throws `ApiError` where the choice
 * needs a tool that `tools` does not hold.
 */
export function checkedToolChoice(choice: ToolChoice | undefined, tools: readonly Tool[]): ToolChoice | undefined {
  if (!choice) return undefined;
  const { mode, name, allowedNames } = choice;
  if (!MODES.has(mode))
    throw oneOf(
      ["tool_choice", "mode"],
      Object.keys(ToolChoiceMode).map((each) => `TOOL_CHOICE_MODE_${each}`),
    );
  const needed = mode === ToolChoiceMode.NAMED || mode === ToolChoiceMode.REQUIRED || allowedNames.length > 0;
  if (tools.length === 0) {
    if (needed) throw invalidValue(["tool_choice"], "it needs a tool, and there are none.");
    return undefined;
  }
  if (allowedNames.length > MAX_TOOLS) throw tooMany(["tool_choice", "allowed_names"], MAX_TOOLS);
  const known = new Set(tools.map((tool) => tool.name));
  if (mode === ToolChoiceMode.NAMED && !known.has(name))
    throw invalidValue(["tool_choice", "name"], "no tool has this name.");
  const unknown = allowedNames.findIndex((each) => !known.has(each));
  if (unknown >= 0) throw invalidValue(["tool_choice", "allowed_names", unknown], "no tool has this name.");
  return choice;
}
