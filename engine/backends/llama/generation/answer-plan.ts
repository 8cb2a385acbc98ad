import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { EngineError } from "../../../errors.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { planReasoning, type ReasoningPlan } from "./reasoning-plan.ts";

/** What a request allows its answer to be. */
export type AnswerPlan = ReasoningPlan & {
  /** The tools that may be called. */
  readonly callable: readonly Tool[];
  /** Whether the answer has to be a call. */
  readonly mustCall: boolean;
  readonly maxToolCalls: number | undefined;
  /** What the visible text has to be, where it is not free. */
  readonly json: "any" | "object" | undefined;
};

/** Reads a request. Throws `EngineError` INVALID_REQUEST for a tool choice that no tool fits. */
export function planAnswer(request: GenerateRequest, thinking: ModelProfile["thinking"] | undefined): AnswerPlan {
  const constraint = request.outputConstraint?.kind;
  const choice = request.toolChoice;
  const mode = choice?.mode ?? ToolChoiceMode.AUTO;
  const callable = callableTools(request);
  const mustCall = mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED;
  if (mustCall && callable.length === 0) {
    throw new EngineError("INVALID_REQUEST", "tool_choice: names no tool of the request.");
  }
  const once = choice?.disableParallelCalls === true || mode === ToolChoiceMode.NAMED;
  return {
    ...planReasoning(request.reasoning, thinking),
    callable,
    mustCall,
    maxToolCalls: once && callable.length > 0 ? 1 : undefined,
    json: mustCall || !constraint ? undefined : constraint.$case === "jsonObject" ? "object" : "any",
  };
}

function callableTools({ tools, toolChoice }: GenerateRequest): readonly Tool[] {
  const mode = toolChoice?.mode ?? ToolChoiceMode.AUTO;
  if (mode === ToolChoiceMode.NONE) return [];
  if (mode === ToolChoiceMode.NAMED) return tools.filter(({ name }) => name === toolChoice?.name);
  const allowed = toolChoice?.allowedNames ?? [];
  return allowed.length === 0 ? tools : tools.filter(({ name }) => allowed.includes(name));
}
