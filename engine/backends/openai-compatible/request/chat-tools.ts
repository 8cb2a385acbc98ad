import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import { type JsonValue, rawObject } from "../http/raw-json.ts";

/** What of the tools an engine is shown, and what the answer may do with them. */
export type ToolPlan = {
  /** Those the model sees. */
  readonly shown: readonly Tool[];
  /** Names the answer may call. */
  readonly callable: ReadonlySet<string>;
  readonly choice: JsonValue;
  /** The answer has to be a call. */
  readonly mustCall: boolean;
  readonly maxCalls: number;
};

/**
 * Reads the tool fields of a request. An allowed subset is what the engine is shown, as no engine takes a subset beside the
 * list; a single one that has to be called is named instead, so that the prompt keeps its prefix. Throws `EngineError`
 * INVALID_REQUEST for a choice that no tool fits.
 */
export function planTools({ tools, toolChoice }: Pick<GenerateRequest, "tools" | "toolChoice">): ToolPlan {
  const mode = toolChoice?.mode ?? ToolChoiceMode.UNSPECIFIED;
  const allowed = toolChoice?.allowedNames ?? [];
  const fitting = allowed.length === 0 ? tools : tools.filter(({ name }) => allowed.includes(name));
  const maxCalls = toolChoice?.disableParallelCalls === true ? 1 : Number.POSITIVE_INFINITY;
  const only = fitting[0];
  if (mode === ToolChoiceMode.NONE) {
    return { shown: tools, callable: new Set(), choice: "none", mustCall: false, maxCalls: 0 };
  }
  if (mode === ToolChoiceMode.NAMED) return named(tools, toolChoice?.name ?? "");
  if (mode === ToolChoiceMode.REQUIRED) {
    if (!only) throw noSuchTool();
    if (fitting.length === 1 && maxCalls === 1) return named(tools, only.name);
    return { shown: fitting, callable: namesOf(fitting), choice: "required", mustCall: true, maxCalls };
  }
  return { shown: fitting, callable: namesOf(fitting), choice: "auto", mustCall: false, maxCalls };
}

/** The tools for a body, their schemas as the caller wrote them. Throws `EngineError` INVALID_SCHEMA. */
export function toChatTools(tools: readonly Tool[]): JsonValue {
  return tools.map((tool, index) => {
    const parameters = rawObject(tool.parametersJsonSchema === "" ? "{}" : tool.parametersJsonSchema);
    if (!parameters) {
      throw new EngineError("INVALID_SCHEMA", `tools[${index}].parameters_json_schema: is not a JSON object.`);
    }
    const { name, description, strict } = tool;
    return {
      type: "function",
      function: {
        name,
        description: description === "" ? undefined : description,
        parameters,
        strict: strict ? true : undefined,
      },
    };
  });
}

function named(tools: readonly Tool[], name: string): ToolPlan {
  if (!tools.some((tool) => tool.name === name)) throw noSuchTool();
  const choice = { type: "function", function: { name } };
  return { shown: tools, callable: new Set([name]), choice, mustCall: true, maxCalls: 1 };
}

function namesOf(tools: readonly Tool[]): ReadonlySet<string> {
  return new Set(tools.map(({ name }) => name));
}

function noSuchTool(): EngineError {
  return new EngineError("INVALID_REQUEST", "tool_choice: names no tool of the request.");
}
