import {
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { oneOf, unsupportedValue } from "../field-error.ts";
import type { ChatScalars } from "./schema.ts";

const { LOW, MEDIUM, HIGH, UNSPECIFIED } = ReasoningEffort;

/** The three levels that `reasoning.effort` may name. */
const EFFORTS: ReadonlyMap<string, ReasoningEffort> = new Map<string, ReasoningEffort>([
  ["low", LOW],
  ["medium", MEDIUM],
  ["high", HIGH],
]);

/** The words that SDKs send in `reasoning_effort`, on the same three levels. */
const SDK_EFFORTS: ReadonlyMap<string, ReasoningEffort> = new Map([
  ["minimal", LOW],
  ...EFFORTS,
  ["xhigh", HIGH],
  ["max", HIGH],
]);

/**
 * Reads whether and how much to reason: `reasoning.effort`, else `reasoning_effort`, else the switches that self-hosted
 * stacks know. Undefined when the body says nothing, which leaves it to the model. Switches of another form are
 * ignored, as they are in no specification. `maxOutputTokens` bounds a budget, as some of the answer must be left to be
 * seen.
 */
export function readReasoning(
  scalars: ChatScalars,
  body: JsonObject,
  maxOutputTokens: number | undefined,
): Reasoning | undefined {
  const named = namedEffort(scalars);
  if (named !== undefined) return named;
  const budgetTokens = budgetOf(body.thinking, maxOutputTokens);
  const on = switchOf(body);
  if (on === undefined) return undefined;
  if (!on) return { mode: ReasoningMode.DISABLED, effort: UNSPECIFIED };
  return { mode: ReasoningMode.ENABLED, effort: UNSPECIFIED, budgetTokens };
}

function namedEffort(scalars: ChatScalars): Reasoning | undefined {
  const strict = scalars.reasoning?.effort ?? undefined;
  if (strict !== undefined) {
    const effort = EFFORTS.get(strict);
    if (effort === undefined)
      throw unsupportedValue(["reasoning", "effort"], "Supported values are: 'low', 'medium', 'high'.");
    return { mode: ReasoningMode.ENABLED, effort };
  }
  const lenient = scalars.reasoning_effort ?? undefined;
  if (lenient === undefined) return undefined;
  if (lenient === "none") return { mode: ReasoningMode.DISABLED, effort: UNSPECIFIED };
  const effort = SDK_EFFORTS.get(lenient);
  if (effort === undefined) throw oneOf(["reasoning_effort"], ["none", ...SDK_EFFORTS.keys()]);
  return { mode: ReasoningMode.ENABLED, effort };
}

/** Returns the first switch that says something; the more specific one comes first. */
function switchOf(body: JsonObject): boolean | undefined {
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
