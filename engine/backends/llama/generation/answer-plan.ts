import type { CountTokensRequest, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { GrammarInput } from "../../../caller-work/grammar-input.ts";
import type { Conversation } from "../../../conversation/chat-template.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { newCallIds } from "../../request-plan/new-call-ids.ts";
import { planReasoning } from "../../request-plan/reasoning-use.ts";
import { planToolUse, type ToolUse } from "../../request-plan/tool-use.ts";

/** The plan of what a request allows its answer to be. */
export type AnswerPlan = ToolUse & {
  /** The conversation that the prompt is rendered from. */
  readonly conversation: Conversation;
  /** The tokens that the model may reason for; Infinity without a bound, 0 where it is not to reason. */
  readonly reasoningBudget: number;
  /** The JSON that the visible text has to be; undefined where the text is free. */
  readonly json: "any" | "object" | undefined;
  /** The parts of the answer's form that the request fixes. */
  readonly fixed: Omit<GrammarInput, "markers" | "reasoning">;
  /** The caller's stop strings. */
  readonly stop: readonly string[];
  /** Makes an id for a call to which the model gave none. */
  readonly newCallId: (toolName: string) => string;
};

/** Reads a request. Throws `EngineError` INVALID_REQUEST for a tool choice that no tool fits. */
export function planAnswer(request: GenerateRequest, profile: Pick<ModelProfile, "thinking" | "callIds">): AnswerPlan {
  const { messages, outputConstraint, sampling } = request;
  const toolUse = planToolUse(request);
  const { callable, mustCall, maxCalls } = toolUse;
  const kind = mustCall ? undefined : outputConstraint?.kind;
  const tools = callable.map((tool) => {
    const { name, parametersJsonSchema, strict } = tool;
    return { name, parametersJsonSchema, strict, position: request.tools.indexOf(tool) };
  });
  return {
    ...toolUse,
    ...planConversation(request, profile.thinking),
    json: kind && (kind.$case === "jsonObject" ? "object" : "any"),
    fixed: { tools, mustCall, maxCalls, constraint: kind && outputConstraint },
    stop: sampling?.stop ?? [],
    newCallId: newCallIds(profile.callIds, messages),
  };
}

/** Reads what the prompt depends on, and how long the model may reason about it. */
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
