import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { checked } from "../checked.ts";
import { effort, reasoningOfEffort } from "../reasoning-effort.ts";
import type { ChatBody } from "./schema.ts";

const { UNSPECIFIED } = ReasoningEffort;

/**
 * Reads whether and how much to reason: `reasoning.effort`, else `reasoning_effort`, else the switches of self-hosted
 * stacks. Undefined when the body has none of them: the model's default applies. Switches of another form are ignored,
 * as no specification defines them. `maxOutputTokens` bounds the budget, so that part of the answer stays visible.
 */
export function readReasoning(body: ChatBody, maxOutputTokens: number | undefined): Reasoning | undefined {
  const named = namedEffort(body);
  if (named !== undefined) return named;
  const budgetTokens = budgetOf(body.thinking, maxOutputTokens);
  const on = switchOf(body);
  if (on === undefined) return undefined;
  if (!on) return { mode: ReasoningMode.DISABLED, effort: UNSPECIFIED };
  return { mode: ReasoningMode.ENABLED, effort: UNSPECIFIED, budgetTokens };
}

const NULLISH_EFFORT = effort.nullish();

function namedEffort({ reasoning, reasoning_effort }: ChatBody): Reasoning | undefined {
  const word = reasoning?.effort ?? checked(NULLISH_EFFORT, reasoning_effort, ["reasoning_effort"]);
  return word ? reasoningOfEffort(word) : undefined;
}

/** Returns the first switch that is set; the more specific one comes first. */
function switchOf(body: ChatBody): boolean | undefined {
  const template = isJsonObject(body.chat_template_kwargs) ? body.chat_template_kwargs : {};
  const switches = [
    thinkingSwitch(body.thinking),
    body.enable_thinking,
    template.enable_thinking,
    template.thinking,
    body.include_reasoning,
  ];
  return switches.find((value) => typeof value === "boolean");
}

function thinkingSwitch(thinking: unknown): boolean | undefined {
  if (typeof thinking === "boolean") return thinking;
  if (!isJsonObject(thinking)) return undefined;
  if (thinking.type === "disabled") return false;
  return thinking.type === "enabled" || thinking.type === "adaptive" ? true : undefined;
}

function budgetOf(thinking: unknown, maxOutputTokens: number | undefined): number | undefined {
  const budget = isJsonObject(thinking) ? thinking.budget_tokens : undefined;
  if (typeof budget !== "number" || !Number.isSafeInteger(budget) || budget < 1) return undefined;
  return Math.max(1, Math.min(budget, (maxOutputTokens ?? Number.POSITIVE_INFINITY) - 1));
}
