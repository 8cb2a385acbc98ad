import type { Sampling } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject, type JsonObject } from "../../json/json-text.ts";
import { invalidValue, tooMany, wrongType } from "../field-error.ts";
import { stopStringOrList } from "../stop-strings.ts";
import type { ChatScalars } from "./schema.ts";

/** The most entries of one `logit_bias`. */
export const MAX_LOGIT_BIAS = 1_024;

const MAX_TOKEN_ID = 2 ** 32 - 1;

/** The number of seeds: they are handed on as integers that a double holds exactly. */
const SEEDS = 2 ** 53;

/**
 * Reads the sampling of a body; what it does not say is the model's default. Throws `ApiError` with the path of the
 * first fault.
 */
export function readSampling(scalars: ChatScalars, body: JsonObject): Sampling {
  return {
    temperature: scalars.temperature ?? undefined,
    topP: scalars.top_p ?? undefined,
    topK: scalars.top_k === undefined || scalars.top_k === null ? undefined : Math.max(0, scalars.top_k),
    minP: scalars.min_p ?? undefined,
    frequencyPenalty: scalars.frequency_penalty ?? undefined,
    presencePenalty: scalars.presence_penalty ?? undefined,
    repetitionPenalty: scalars.repetition_penalty ?? undefined,
    seed: readSeed(body.seed),
    stop: stopStringOrList(body.stop, ["stop"]),
    topLogprobs: scalars.logprobs ? (scalars.top_logprobs ?? 0) : undefined,
    logitBias: readLogitBias(body.logit_bias),
  };
}

/** Reads a seed. Any integer is one; negative and large ones are folded into the range, always in the same way. */
function readSeed(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value)) throw wrongType(["seed"], "an integer", value);
  const rest = value % SEEDS;
  return rest < 0 ? rest + SEEDS : Math.abs(rest);
}

/** Reads a `logit_bias`. Paths of faults stop at the field, as its keys are the caller's. */
function readLogitBias(value: unknown): { [token: number]: number } {
  const path = ["logit_bias"];
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw wrongType(path, "an object", value);
  const entries = Object.entries(value);
  if (entries.length > MAX_LOGIT_BIAS) throw tooMany(path, MAX_LOGIT_BIAS);
  return Object.fromEntries(
    entries.map(([key, bias]) => {
      if (!/^[0-9]{1,10}$/.test(key) || Number(key) > MAX_TOKEN_ID)
        throw invalidValue(path, `expected keys that are token ids: integers from 0 to ${MAX_TOKEN_ID}.`);
      if (typeof bias !== "number" || !(bias >= -100 && bias <= 100))
        throw invalidValue(path, "expected values that are numbers from -100 to 100.");
      return [Number(key), bias];
    }),
  );
}
