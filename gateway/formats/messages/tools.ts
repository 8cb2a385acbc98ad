import * as z from "zod";
import { ToolChoiceMode as Mode, type Tool, type ToolChoice } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { ApiError, type FieldPath } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { cacheBreakpoint } from "../cache-control.ts";
import { checked } from "../checked.ts";
import { invalidValue, wrongType } from "../field-error.ts";
import { toolOf } from "../tools.ts";
import { type MessagesBody, tool as toolSchema } from "./schema.ts";

/** The vendor's tools without a schema, by the names that a refusal shows. */
const VENDOR_TOOLS = [
  "web_search",
  "web_fetch",
  "code_execution",
  "tool_search",
  "mcp_toolset",
  "bash",
  "text_editor",
  "memory",
  "computer",
  "browser_toolset",
];

/** The name of a tool that is listed while an agent holds its other tools back; it cannot be called. */
const PLACEHOLDER = "DeferredToolPlaceholder";

export type DeclaredTools = {
  readonly tools: readonly Tool[];
  /** The paths of these tools in the body, in the same order. */
  readonly paths: readonly FieldPath[];
};

/** Reads the `tools` of a body. Throws `ApiError` for a tool without `input_schema` and for two tools of one name. */
export function toolsOf(list: MessagesBody["tools"]): DeclaredTools {
  const names = new Set<string>();
  const tools: Tool[] = [];
  const paths: FieldPath[] = [];
  for (const [index, source] of (list ?? []).entries()) {
    const path = ["tools", index];
    if (isJsonObject(source)) refuseVendorTool(source, path);
    const { input_schema: schema, ...declared } = checked(toolSchema, source, path);
    const tool = toolOf(declared, schema, [...path, "input_schema"], cacheBreakpoint(declared.cache_control));
    if (names.has(tool.name)) throw invalidValue([...path, "name"], "Tool names must be unique.");
    names.add(tool.name);
    if (tool.name === PLACEHOLDER && declared.defer_loading === true) continue;
    tools.push(tool);
    paths.push(path);
  }
  return { tools, paths };
}

const MODES = { auto: Mode.AUTO, any: Mode.REQUIRED, tool: Mode.NAMED, none: Mode.NONE } as const;

const NAME = z.string().min(1);

/**
 * Reads the `tool_choice` of a body; absent, it is `auto`. Undefined where there are no tools. Throws `ApiError` when
 * it names a tool that is not in the list.
 */
export function toolChoiceOf(choice: MessagesBody["tool_choice"], tools: readonly Tool[]): ToolChoice | undefined {
  const mode = MODES[choice?.type ?? "auto"];
  const path = ["tool_choice"];
  const name = choice && mode === Mode.NAMED ? checked(NAME, choice.name, [...path, "name"]) : "";
  if (mode === Mode.NAMED && !tools.some((tool) => tool.name === name))
    throw invalidValue([...path, "name"], "no tool of this name is in 'tools'.");
  const disableParallelCalls = choice?.disable_parallel_tool_use ?? false;
  if (tools.length > 0) return { mode, name, disableParallelCalls, allowedNames: [] };
  if (mode === Mode.REQUIRED) throw invalidValue(path, "a tool can only be asked for where 'tools' has one.");
  return undefined;
}

function refuseVendorTool(source: JsonObject, path: FieldPath): void {
  const type = source.type ?? "custom";
  if (typeof type !== "string") throw wrongType([...path, "type"], "a string", type);
  if (type === "custom" || (source.input_schema ?? undefined) !== undefined) return;
  const kind = VENDOR_TOOLS.find((name) => type.startsWith(name));
  const named = kind ? `tools of the type '${kind}' are` : "a tool of this type is";
  const explanation = `${named} not offered here, only tools with a schema of their own.`;
  const schemaPath = [...path, "input_schema"];
  throw new ApiError("missing_required_parameter", `${schemaPath.join(".")}: Field required; ${explanation}`, {
    path: schemaPath,
    detail: "vendor_tool",
  });
}
