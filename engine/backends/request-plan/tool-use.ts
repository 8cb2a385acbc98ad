import type { GenerateRequest } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../errors.ts";

/** The calls that an answer may make. */
export type ToolUse = {
  /** The tools that may be called, in the request's order. */
  readonly callable: readonly Tool[];
  readonly mustCall: boolean;
  /** The most calls in one answer: 1, or Infinity without a bound. */
  readonly maxCalls: number;
};

/**
 * Reads the tool fields of a request. Throws `EngineError` INVALID_REQUEST for a required call that no tool matches.
 */
export function planToolUse(request: Pick<GenerateRequest, "tools" | "toolChoice">): ToolUse {
  const { toolChoice } = request;
  const mode = toolChoice?.mode ?? ToolChoiceMode.AUTO;
  const callable = callableTools(request, mode);
  const mustCall = mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED;
  if (mustCall && callable.length === 0) {
    throw new EngineError("INVALID_REQUEST", "tool_choice: names no tool of the request.");
  }
  const once = toolChoice?.disableParallelCalls === true || mode === ToolChoiceMode.NAMED;
  return { callable, mustCall, maxCalls: once ? 1 : Number.POSITIVE_INFINITY };
}

function callableTools(
  { tools, toolChoice }: Pick<GenerateRequest, "tools" | "toolChoice">,
  mode: ToolChoiceMode,
): readonly Tool[] {
  if (mode === ToolChoiceMode.NONE) return [];
  if (mode === ToolChoiceMode.NAMED) return tools.filter(({ name }) => name === toolChoice?.name);
  const allowed = toolChoice?.allowedNames ?? [];
  return allowed.length === 0 ? tools : tools.filter(({ name }) => allowed.includes(name));
}
