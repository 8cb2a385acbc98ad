import * as z from "zod";
import { type Part, type Tool, type ToolChoice, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import type { FieldPath } from "../../errors.ts";
import type { JsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { invalidValue, tooMany } from "../field-error.ts";
import { cacheBreakpoint } from "../fields.ts";
import { textPart } from "../parts.ts";
import { isDirect, isRepeated, MAX_TOOLS, toolOf } from "../tools.ts";
import { type MessagesBody, toolAdditionBlock, toolRemovalBlock, tool as toolSchema } from "./schema.ts";
import { asCustomTool } from "./vendor-tools.ts";

type Declared = {
  readonly tool: Tool;
  readonly path: FieldPath;
  /** Whether the model reads it: at the beginning, or where a message has declared it. */
  shown: boolean;
  /** Whether a `tool_removal` has withdrawn it. */
  withdrawn: boolean;
};

/**
 * The tools of a request. The blocks of its conversation load deferred tools, add tools and withdraw them; they have to
 * be read in their order.
 */
export class RequestTools {
  readonly #declared = new Map<string, Declared>();

  /** Throws `ApiError` with the path of the first fault, as the other methods do. */
  constructor(list: MessagesBody["tools"]) {
    for (const [index, source] of (list ?? []).entries()) this.#declare(source, ["tools", index]);
  }

  /** The tools that the model reads, in the order of their declarations, and their paths in the body. */
  get shown(): { readonly tools: readonly Tool[]; readonly paths: readonly FieldPath[] } {
    const shown = [...this.#declared.values()].filter((one) => one.shown);
    return { tools: shown.map(({ tool }) => tool), paths: shown.map(({ path }) => path) };
  }

  /** Returns what the model reads where a search has found a tool; one that is gone has a name alone. */
  found(name: string): readonly Part[] {
    return [textPart(`Tool found: ${name}`), ...this.#loaded(name)];
  }

  /** Returns what the model reads where a `tool_addition` stands; nothing of a tool that is gone. */
  added(block: JsonObject, path: FieldPath): readonly Part[] {
    const { tool } = checked(toolAdditionBlock, block, path);
    const name =
      tool.type === "tool_reference"
        ? tool.name
        : this.#declare(tool.definition, [...path, "tool", "definition"], true);
    if (!this.#declared.has(name)) return [];
    return [textPart(`The tool ${name} can be called from here on.`), ...this.#loaded(name)];
  }

  /** Returns what the model reads where a `tool_removal` stands. What it has read of the tool stays there. */
  removed(block: JsonObject, path: FieldPath): readonly Part[] {
    const { tool } = checked(toolRemovalBlock, block, path);
    const declared = this.#declared.get(tool.name);
    if (declared) declared.withdrawn = true;
    return [textPart(`The tool ${tool.name} cannot be called any more.`)];
  }

  /** Undefined where there are no tools. */
  choice(choice: MessagesBody["tool_choice"]): ToolChoice | undefined {
    const mode = MODES[choice?.type ?? "auto"];
    const path = ["tool_choice"];
    const name = choice && mode === ToolChoiceMode.NAMED ? checked(NAME, choice.name, [...path, "name"]) : "";
    const shown = [...this.#declared.values()].filter((one) => one.shown);
    const offered = shown.filter((one) => !one.withdrawn).map(({ tool }) => tool.name);
    if (mode === ToolChoiceMode.NAMED && !offered.includes(name))
      throw invalidValue([...path, "name"], this.#declared.has(name) ? NOT_OFFERED : UNKNOWN);
    if (mode === ToolChoiceMode.REQUIRED && offered.length === 0)
      throw invalidValue(path, "a tool can only be asked for where 'tools' has one.");
    if (shown.length === 0) return undefined;
    const disableParallelCalls = choice?.disable_parallel_tool_use ?? false;
    // The prompt keeps all of them, so that its beginning stays the same.
    const allowedNames = offered.length === shown.length ? [] : offered;
    return { mode: offered.length === 0 ? ToolChoiceMode.NONE : mode, name, disableParallelCalls, allowedNames };
  }

  #declare(source: unknown, path: FieldPath, deferred?: true): string {
    const { input_schema: schema, ...declared } = checked(toolSchema, asCustomTool(source, path), path);
    const isDeferred = deferred ?? declared.defer_loading === true;
    const breakpoint = cacheBreakpoint(declared.cache_control);
    const tool = { ...toolOf(declared, schema, [...path, "input_schema"], breakpoint), deferred: isDeferred };
    const known = this.#declared.get(tool.name);
    if (known && isRepeated(known.tool, tool, path)) return tool.name;
    if (this.#declared.size === MAX_TOOLS) throw tooMany(path, MAX_TOOLS);
    if (isDirect(declared.allowed_callers))
      this.#declared.set(tool.name, { tool, path, shown: !isDeferred, withdrawn: false });
    return tool.name;
  }

  #loaded(name: string): readonly Part[] {
    const declared = this.#declared.get(name);
    if (!declared) return [];
    declared.shown = true;
    declared.withdrawn = false;
    if (!declared.tool.deferred) return [];
    return [{ kind: { $case: "toolDeclaration", value: { names: [name] } } }];
  }
}

const UNKNOWN = "no tool of this name is in 'tools'.";
const NOT_OFFERED = "this tool cannot be called here: it is deferred and not loaded yet, or withdrawn.";

const MODES = {
  auto: ToolChoiceMode.AUTO,
  any: ToolChoiceMode.REQUIRED,
  tool: ToolChoiceMode.NAMED,
  none: ToolChoiceMode.NONE,
} as const;

const NAME = z.string().min(1);
