import type { CountTokensRequest, GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GrammarInput } from "../caller-work/grammar-input.ts";
import type { Conversation } from "../conversation/chat-template.ts";
import type { ModelProfile } from "../profiles/profile.ts";
import { newCallIds, planReasoning, planToolUse, type ToolUse } from "./request-plan.ts";

export type AnswerPlan = ToolUse & {
  readonly conversation: Conversation;
  /** The most reasoning tokens; Infinity without a bound, 0 if the model must not reason. */
  readonly reasoningBudget: number;
  readonly json: "any" | "object" | undefined;
  readonly fixed: Omit<GrammarInput, "markers" | "reasoning">;
  readonly stop: readonly string[];
  readonly newCallId: (toolName: string) => string;
};

/** Reads a request. Throws `EngineError` INVALID_REQUEST for a tool choice that no tool matches. */
export function planAnswer(
  request: GenerateRequest,
  profile: Pick<ModelProfile, "thinking" | "callIds" | "toolsAsText">,
): AnswerPlan {
  const { messages, outputConstraint, sampling } = request;
  const toolUse = planToolUse(request);
  const { callable, mustCall, mustNotCall } = toolUse;
  // Models that were not trained to call tools repeat a call until their limit.
  const maxCalls = profile.toolsAsText ? 1 : toolUse.maxCalls;
  const kind = mustCall ? undefined : outputConstraint?.kind;
  const tools = callable.map((tool) => {
    const { name, parametersJsonSchema, strict } = tool;
    return { name, parametersJsonSchema, strict, position: request.tools.indexOf(tool) };
  });
  return {
    ...toolUse,
    maxCalls,
    ...planConversation(request, profile.thinking),
    json: kind && (kind.$case === "jsonObject" ? "object" : "any"),
    fixed: { tools, mustCall, mustNotCall, maxCalls, constraint: kind && outputConstraint },
    stop: sampling?.stop ?? [],
    newCallId: newCallIds(profile.callIds, messages),
  };
}

export function planConversation(
  { messages, tools, reasoning }: Pick<CountTokensRequest, "messages" | "tools" | "reasoning">,
  thinking: ModelProfile["thinking"] | undefined,
): Pick<AnswerPlan, "conversation" | "reasoningBudget"> {
  const { wanted, effort, budgetTokens = Number.POSITIVE_INFINITY } = planReasoning(reasoning, thinking);
  const word = effort?.reasoningEffort;
  const effortVariables = { ...effort?.templateKwargs, ...(word === undefined ? {} : { reasoning_effort: word }) };
  return {
    conversation: { messages, tools, reasoning: wanted, effortVariables },
    reasoningBudget: wanted ? budgetTokens : 0,
  };
}
