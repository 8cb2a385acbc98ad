import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import type { ModelProfile, ThinkingEffort } from "../../profiles/profile.ts";

export type ReasoningUse = {
  readonly wanted: boolean;
  /** The family's settings for the request's effort; undefined if the request or the family has none. */
  readonly effort: ThinkingEffort | undefined;
  /** The most reasoning tokens; undefined without a bound. */
  readonly budgetTokens: number | undefined;
};

/**
 * Reads the reasoning of a request. A request without a mode gets the family's default; a budget takes precedence over
 * an effort. `thinking` is undefined for a family that does not reason, or an unknown one.
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
