import type { Reasoning } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { planReasoning } from "../../request-plan/reasoning-use.ts";
import type { Dialect } from "../dialect/dialect.ts";

/** The plan of what a request's wish for reasoning means for a model. */
export type ThinkingPlan = {
  /** The variables of the chat template. */
  readonly templateKwargs: Readonly<Record<string, string | number | boolean>>;
  /**
   * The word for the effort where the dialect has a field of its own for it; undefined elsewhere, where it is one of
   * the template's variables.
   */
  readonly reasoningEffort: string | undefined;
  /** The most tokens to think for; undefined without a bound. */
  readonly budgetTokens: number | undefined;
  /** Whether what the model reasons goes no further, as it does although the caller wants none. */
  readonly hidden: boolean;
};

/**
 * Plans the reasoning of an answer. A request that does not say what it wants gets what the profile says, and the
 * engine is told that too: one of them reasons where the template alone would not.
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
