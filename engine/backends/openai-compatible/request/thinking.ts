import type { Reasoning } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { planReasoning } from "../../request-plan.ts";
import type { Dialect } from "../dialect/dialect.ts";

/** The translation of a request's reasoning fields for a model. */
export type ThinkingPlan = {
  readonly templateKwargs: Readonly<Record<string, string | number | boolean>>;
  /** The effort, if the dialect has a field for it; undefined otherwise, as it is then a template variable. */
  readonly reasoningEffort: string | undefined;
  /** The most reasoning tokens; undefined without a bound. */
  readonly budgetTokens: number | undefined;
  /** Whether reasoning is dropped from the answer, for a model that reasons although the caller disabled it. */
  readonly hidden: boolean;
};

/**
 * Plans the reasoning of an answer. A request without a mode gets the profile's default, which is sent explicitly: one
 * engine reasons where the template alone would not.
 */
export function planThinking(
  { thinking }: ModelProfile,
  dialect: Dialect,
  reasoning: Reasoning | undefined,
): ThinkingPlan {
  if (!thinking) return plan({});
  const { wanted, effort, budgetTokens } = planReasoning(reasoning, thinking);
  if (!wanted) return thinking.off ? plan({ templateKwargs: thinking.off }) : plan({ hidden: true });
  const hasField = dialect.fields.reasoningEffort !== undefined;
  const word = effort?.reasoningEffort;
  return plan({
    templateKwargs: {
      ...thinking.on,
      ...effort?.templateKwargs,
      ...(word !== undefined && !hasField ? { reasoning_effort: word } : {}),
    },
    reasoningEffort: hasField ? word : undefined,
    budgetTokens,
  });
}

function plan(parts: Partial<ThinkingPlan>): ThinkingPlan {
  return { templateKwargs: {}, reasoningEffort: undefined, budgetTokens: undefined, hidden: false, ...parts };
}
