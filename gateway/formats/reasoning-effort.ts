import * as z from "zod";
import { type Reasoning, ReasoningEffort, ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";

/**
 * The level of each effort that a caller may name: models have three, to which the efforts between and beyond them are
 * mapped, and `none` switches reasoning off.
 */
export const EFFORTS = {
  none: ReasoningEffort.UNSPECIFIED,
  minimal: ReasoningEffort.LOW,
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.HIGH,
  max: ReasoningEffort.HIGH,
} as const satisfies Readonly<Record<string, ReasoningEffort>>;

export type Effort = keyof typeof EFFORTS;

export const effort = z.enum(Object.keys(EFFORTS) as Effort[]);

export function reasoningOfEffort(word: Effort): Reasoning {
  return { mode: word === "none" ? ReasoningMode.DISABLED : ReasoningMode.ENABLED, effort: EFFORTS[word] };
}
