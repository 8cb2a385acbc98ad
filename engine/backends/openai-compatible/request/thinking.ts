import type { Reasoning } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ModelProfile } from "../../../profiles/profile.ts";
import { planReasoning } from "../../request-plan/reasoning-use.ts";
import type { Dialect } from "../dialect/dialect.ts";

/** What a request's wish for reasoning means for a model. */
export type ThinkingPlan = {
  readonly templateKwargs: Readonly<Record<string, string | number | boolean>>;
  /** Only where the dialect has a field of its own for it; elsewhere it is one of the template's variables. */
  readonly reasoningEffort: string | undefined;
  readonly budgetTokens: number | undefined;
  /** The model reasons although the caller wants none: what it reasons goes no further. */
  readonly hidden: boolean;
};

/**
 * A request that does not say what it wants gets what the profile says. It is said to the engine too: one of them reasons
 * where the template alone would not.
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
