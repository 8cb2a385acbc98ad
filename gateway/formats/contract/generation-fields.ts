import {
  type OutputConstraint,
  type Reasoning,
  ReasoningEffort,
  ReasoningMode,
  type Sampling,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { invalidValue, oneOf, tooMany } from "../field-error.ts";
import { MAX_STOP_STRINGS } from "../stop-strings.ts";
import { numberWithin } from "./number-field.ts";
import { schemaAsSent } from "./schema-text.ts";

const MAX_LOGIT_BIAS = 1_024;
const MAX_BIAS = 1_000;
const MAX_TOP_LOGPROBS = 50;

const MODES: ReadonlySet<number> = new Set(Object.values(ReasoningMode));
const EFFORTS: ReadonlySet<number> = new Set(Object.values(ReasoningEffort));

/** Checks the sampling; absent fields stay absent. Throws `ApiError` with the path of the first fault. */
export function checkedSampling(sampling: Sampling | undefined): Sampling | undefined {
  if (!sampling) return undefined;
  const at = (name: string) => ["sampling", name];
  numberWithin(sampling.temperature, at("temperature"), 0, 2);
  numberWithin(sampling.topP, at("top_p"), 0, 1);
  numberWithin(sampling.topK, at("top_k"), 0, 2 ** 31 - 1);
  numberWithin(sampling.minP, at("min_p"), 0, 1);
  numberWithin(sampling.frequencyPenalty, at("frequency_penalty"), -2, 2);
  numberWithin(sampling.presencePenalty, at("presence_penalty"), -2, 2);
  numberWithin(sampling.repetitionPenalty, at("repetition_penalty"), 0.01, 10);
  numberWithin(sampling.seed, at("seed"), 0, Number.MAX_SAFE_INTEGER);
  numberWithin(sampling.topLogprobs, at("top_logprobs"), 0, MAX_TOP_LOGPROBS);
  const biases = Object.values(sampling.logitBias);
  if (biases.length > MAX_LOGIT_BIAS) throw tooMany(at("logit_bias"), MAX_LOGIT_BIAS);
  // The key of an entry is the caller's: the path ends at the field.
  for (const bias of biases) numberWithin(bias, at("logit_bias"), -MAX_BIAS, MAX_BIAS);
  const stop = sampling.stop.filter((text) => text !== "");
  if (stop.length > MAX_STOP_STRINGS) throw tooMany(at("stop"), MAX_STOP_STRINGS);
  return { ...sampling, stop };
}

/**
 * Checks the reasoning. A budget leaves part of the answer visible. Throws `ApiError` with the path of the first fault.
 */
export function checkedReasoning(
  reasoning: Reasoning | undefined,
  maxOutputTokens: number | undefined,
): Reasoning | undefined {
  if (!reasoning) return undefined;
  const { mode, effort, budgetTokens } = reasoning;
  if (!MODES.has(mode))
    throw oneOf(
      ["reasoning", "mode"],
      Object.keys(ReasoningMode).map((name) => `REASONING_MODE_${name}`),
    );
  if (!EFFORTS.has(effort))
    throw oneOf(
      ["reasoning", "effort"],
      Object.keys(ReasoningEffort).map((name) => `REASONING_EFFORT_${name}`),
    );
  if (budgetTokens === undefined) return { mode, effort, budgetTokens };
  numberWithin(budgetTokens, ["reasoning", "budget_tokens"], 1, Number.MAX_SAFE_INTEGER);
  const most = (maxOutputTokens ?? Number.POSITIVE_INFINITY) - 1;
  return { mode, effort, budgetTokens: Math.max(1, Math.min(budgetTokens, most)) };
}

/** Checks the required form of the text. Throws `ApiError` for an invalid schema, or one beyond its limits. */
export function checkedConstraint(constraint: OutputConstraint | undefined): OutputConstraint | undefined {
  if (constraint?.kind?.$case !== "jsonSchema") return constraint;
  const { schemaJson, strict, name } = constraint.kind.value;
  const path = ["output_constraint", "json_schema"];
  if (name.length > 64) throw invalidValue([...path, "name"], "expected at most 64 characters.");
  schemaAsSent(schemaJson, [...path, "schema_json"], "response", strict);
  return constraint;
}
