import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { TemplateVariables } from "../../../conversation/chat-template.ts";
import type { ModelProfile, ThinkingEffort } from "../../../profiles/profile.ts";

/** What a request's wish for reasoning means for a model. */
export type ReasoningPlan = {
  readonly reasoning: boolean;
  /** Tokens the model may reason for; Infinity without a bound, 0 where nothing is wanted of it. */
  readonly reasoningBudget: number;
  /** What the effort means to the template, besides that the model is to think. */
  readonly effortVariables: TemplateVariables;
};

/** A request that does not say what it wants gets what the profile says, or no reasoning; its budget counts before its effort. */
export function planReasoning(
  reasoning: Reasoning | undefined,
  thinking: ModelProfile["thinking"] | undefined,
): ReasoningPlan {
  const mode = reasoning?.mode ?? ReasoningMode.UNSPECIFIED;
  const byDefault = mode === ReasoningMode.UNSPECIFIED && (thinking?.default ?? "off") !== "off";
  if (mode !== ReasoningMode.ENABLED && !byDefault) {
    return { reasoning: false, reasoningBudget: 0, effortVariables: {} };
  }
  const effort = effortOf(thinking, reasoning?.effort ?? ReasoningEffort.UNSPECIFIED);
  const word = effort?.reasoningEffort;
  return {
    reasoning: true,
    reasoningBudget: reasoning?.budgetTokens ?? effort?.budgetTokens ?? Number.POSITIVE_INFINITY,
    effortVariables: { ...effort?.templateKwargs, ...(word === undefined ? {} : { reasoning_effort: word }) },
  };
}

function effortOf(thinking: ModelProfile["thinking"] | undefined, effort: ReasoningEffort): ThinkingEffort | undefined {
  switch (effort) {
    case ReasoningEffort.LOW:
      return thinking?.effort?.low;
    case ReasoningEffort.MEDIUM:
      return thinking?.effort?.medium;
    case ReasoningEffort.HIGH:
      return thinking?.effort?.high;
    default:
      return undefined;
  }
}
