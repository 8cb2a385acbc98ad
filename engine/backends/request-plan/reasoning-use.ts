import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ModelProfile, ThinkingEffort } from "../../profiles/profile.ts";

/** The wish of a request for a model's reasoning. */
export type ReasoningUse = {
  /** Whether the model is to reason. */
  readonly wanted: boolean;
  /** The meaning of the request's effort to the family; undefined where the request or the family names none. */
  readonly effort: ThinkingEffort | undefined;
  /** The tokens that the model may reason for; undefined without a bound. */
  readonly budgetTokens: number | undefined;
};

/**
 * Reads the reasoning of a request. One that does not say what it wants gets what the family does by default; a budget
 * counts before an effort. `thinking` is undefined for a family that does not reason, or that nobody knows.
 */
export function planReasoning(
  reasoning: Reasoning | undefined,
  thinking: ModelProfile["thinking"] | undefined,
): ReasoningUse {
  const mode = reasoning?.mode ?? ReasoningMode.UNSPECIFIED;
  const byDefault = mode === ReasoningMode.UNSPECIFIED && thinking !== undefined && thinking.default !== "off";
  if (mode !== ReasoningMode.ENABLED && !byDefault) {
    return { wanted: false, effort: undefined, budgetTokens: undefined };
  }
  const effort = effortOf(thinking?.effort, reasoning?.effort ?? ReasoningEffort.UNSPECIFIED);
  return { wanted: true, effort, budgetTokens: reasoning?.budgetTokens ?? effort?.budgetTokens };
}

function effortOf(
  levels: Readonly<Record<"low" | "medium" | "high", ThinkingEffort>> | undefined,
  effort: ReasoningEffort,
): ThinkingEffort | undefined {
  switch (effort) {
    case ReasoningEffort.LOW:
      return levels?.low;
    case ReasoningEffort.MEDIUM:
      return levels?.medium;
    case ReasoningEffort.HIGH:
      return levels?.high;
    default:
      return undefined;
  }
}
