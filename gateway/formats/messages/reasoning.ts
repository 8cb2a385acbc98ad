import {
  ReasoningEffort as Effort,
  ReasoningMode as Mode,
  type Reasoning,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { missing } from "../field-error.ts";
import { EFFORTS } from "../reasoning-effort.ts";
import type { MessagesBody } from "./schema.ts";

/**
 * The form in which the caller sees the model's reasoning: its text, a block without the text, or no block at all. The
 * model may reason in all three, as not every model can be kept from it.
 */
export type ThinkingDisplay = "shown" | "omitted" | "none";

/**
 * Returns the form in which the caller sees the reasoning. `summarized`, `updates` and any other value give the text,
 * as there is no summary of it.
 */
export function thinkingDisplay(body: MessagesBody): ThinkingDisplay {
  const off = body.thinking ? body.thinking.type === "disabled" : body.output_config?.effort === "none";
  if (off) return "none";
  return body.thinking?.display === "omitted" ? "omitted" : "shown";
}

/**
 * Reads the reasoning that a body requests; undefined leaves it to the model. A budget is clamped below
 * `maxOutputTokens`, which includes it. Throws `ApiError` when `enabled` comes without a budget.
 */
export function reasoningOf(body: MessagesBody, maxOutputTokens: number): Reasoning | undefined {
  const { thinking, output_config: config } = body;
  if (!thinking && !config?.effort) return undefined;
  const effort = config?.effort ? EFFORTS[config.effort] : Effort.UNSPECIFIED;
  switch (thinking?.type) {
    case undefined:
      return { mode: config?.effort === "none" ? Mode.DISABLED : Mode.UNSPECIFIED, effort };
    case "disabled":
      return { mode: Mode.DISABLED, effort };
    case "adaptive":
    case "between_tools":
      return { mode: Mode.ENABLED, effort };
    case "enabled": {
      const budget = thinking.budget_tokens;
      if (!budget) throw missing(["thinking", "budget_tokens"]);
      return { mode: Mode.ENABLED, effort, budgetTokens: Math.min(budget, maxOutputTokens - 1) };
    }
    default:
      return thinking?.type satisfies undefined;
  }
}
