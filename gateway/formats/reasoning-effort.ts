import { type Reasoning, ReasoningEffort, ReasoningMode } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import type { FieldPath } from "../errors.ts";
import { oneOf } from "./field-error.ts";

/**
 * The level of each effort that a caller may name: models know three, which the words between and beyond them are
 * mapped to, and `none` switches reasoning off.
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

/** Reads the effort that stands at `path`. Throws `ApiError` for a word that is none. */
export function reasoningOfEffort(word: string, path: FieldPath): Reasoning {
  if (!isEffort(word)) throw oneOf(path, Object.keys(EFFORTS));
  return { mode: word === "none" ? ReasoningMode.DISABLED : ReasoningMode.ENABLED, effort: EFFORTS[word] };
}

function isEffort(word: string): word is keyof typeof EFFORTS {
  return Object.hasOwn(EFFORTS, word);
}
