import type { Sampling } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { isJsonObject } from "../../json/json-text.ts";
import { invalidValue, tooMany, wrongType } from "../field-error.ts";
import { stopStrings } from "../stop-strings.ts";
import { type ChatBody, MAX_LOGIT_BIAS } from "./schema.ts";

const MAX_TOKEN_ID = 2 ** 32 - 1;

/** The number of seeds: they are passed on as integers that a double holds exactly. */
const SEEDS = 2 ** 53;

/**
 * Reads the sampling of a body; absent fields take the model's default. Throws `ApiError` with the path of the first
 * fault.
 */
export function readSampling(body: ChatBody): Sampling {
  return {
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    topK: body.top_k === undefined || body.top_k === null ? undefined : Math.max(0, body.top_k),
    minP: body.min_p ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    repetitionPenalty: body.repetition_penalty ?? undefined,
    seed: readSeed(body.seed),
    stop: stopStrings(body.stop),
    topLogprobs: body.logprobs ? (body.top_logprobs ?? 0) : undefined,
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
