import type { SequenceEvaluateOptions, Token, TokenBias } from "node-llama-cpp";
import type { Sampling } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";

export type SamplingDefaults = {
  readonly temperature: number;
  /** The number of most likely tokens to draw from; 0 for all. */
  readonly topK: number;
  readonly topP: number;
  /** The fraction of the most likely token's probability, from 0 to 1, below which tokens are excluded. */
  readonly minP: number;
};

const FALLBACK: SamplingDefaults = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 };

/** The penalty window, in tokens: the library copies it at every step. */
const PENALTY_WINDOW_TOKENS = 2048;

/** The number of seeds: llama.cpp reads 2^32 - 1 as a random seed. */
export const SEEDS = 4_294_967_295;

const MAX_TOP_LOGPROBS = 50;

export type SamplingOptions = Pick<
  SequenceEvaluateOptions,
  "temperature" | "topK" | "topP" | "minP" | "seed" | "repeatPenalty" | "tokenBias"
>;

export type SamplingInput = {
  readonly sampling: Sampling | undefined;
  readonly defaults: SamplingDefaults;
  readonly vocabularySize: number;
  /** The tokens generated so far; the list grows and is read at each step. */
  readonly generated: readonly Token[];
  readonly randomSeed: () => number;
  readonly newBias: () => TokenBias;
  readonly banned: readonly Token[];
  /** Returns the tokens of which one must come next, at each step. Absent: there are never any. */
  readonly preferred?: (() => readonly Token[]) | undefined;
};

/** The bias that lifts a token above all others; a request's own bias for the token overrides it. */
const PREFERENCE = 500;

/** Reads `general.sampling.*` of a GGUF file; the rest are llama.cpp's defaults. */
export function samplingDefaults(general: object): SamplingDefaults {
  const sampling: unknown = Object.entries(general).find(([key]) => key === "sampling")?.[1];
  const found = new Map(typeof sampling === "object" && sampling !== null ? Object.entries(sampling) : []);
  const read = (key: string, fallback: number) => {
    const value: unknown = found.get(key);
    // The file holds 32-bit numbers: 0.6 would be reported as 0.6000000238418579.
    return typeof value === "number" && Number.isFinite(value) && value >= 0 ? Number(value.toPrecision(7)) : fallback;
  };
  return {
    temperature: read("temp", FALLBACK.temperature),
    topK: Math.floor(read("top_k", FALLBACK.topK)),
    topP: Math.min(1, read("top_p", FALLBACK.topP)),
    minP: Math.min(1, read("min_p", FALLBACK.minP)),
  };
}

/**
 * All explicit: the library's defaults are not neutral. Throws `EngineError` INVALID_REQUEST for a value out of range.
 */
export function toSamplingOptions(input: SamplingInput): SamplingOptions {
  const { sampling, defaults, generated } = input;
  const seed = sampling?.seed;
  const penalties = {
    penalty: inRange("repetition_penalty", sampling?.repetitionPenalty ?? 1, 0.01, 10),
    frequencyPenalty: inRange("frequency_penalty", sampling?.frequencyPenalty ?? 0, -2, 2),
    presencePenalty: inRange("presence_penalty", sampling?.presencePenalty ?? 0, -2, 2),
  };
  const penalised = penalties.penalty !== 1 || penalties.frequencyPenalty !== 0 || penalties.presencePenalty !== 0;
  const bias = tokenBias(input, []);
  return {
    temperature: inRange("temperature", sampling?.temperature ?? defaults.temperature, 0, 100),
    topK: inRange("top_k", sampling?.topK ?? defaults.topK, 0, 2_147_483_647),
    topP: inRange("top_p", sampling?.topP ?? defaults.topP, 0, 1),
    minP: inRange("min_p", sampling?.minP ?? defaults.minP, 0, 1),
    seed: seed === undefined ? input.randomSeed() : seed % SEEDS,
    ...(penalised
      ? {
          repeatPenalty: {
            ...penalties,
            punishTokens: () => generated.slice(-PENALTY_WINDOW_TOKENS),
            maxPunishTokens: PENALTY_WINDOW_TOKENS,
          },
        }
      : {}),
    ...biasOf(input, bias),
  };
}

export function isDrawn({ temperature }: SamplingOptions): boolean {
  return temperature !== undefined && temperature > 0;
}

/** A seed that was generated here is left out. */
export function usedSampling({ temperature, topK, topP, minP, repeatPenalty }: SamplingOptions): Sampling {
  return {
    temperature,
    topK,
    topP,
    minP,
    frequencyPenalty: repeatPenalty?.frequencyPenalty ?? 0,
    presencePenalty: repeatPenalty?.presencePenalty ?? 0,
    repetitionPenalty: repeatPenalty?.penalty ?? 1,
    stop: [],
    logitBias: {},
  };
}

/** Alternatives per token, 0 to 50; undefined without log probabilities. Throws `EngineError` INVALID_REQUEST. */
export function wantedLogprobs(sampling: Sampling | undefined): number | undefined {
  const wanted = sampling?.topLogprobs;
  return wanted === undefined ? undefined : inRange("top_logprobs", wanted, 0, MAX_TOP_LOGPROBS);
}

/** Returns a constant bias, or one per step if tokens are preferred at times. */
function biasOf(input: SamplingInput, bias: TokenBias | undefined): Pick<SamplingOptions, "tokenBias"> {
  const { preferred, newBias } = input;
  if (preferred === undefined) return bias ? { tokenBias: bias } : {};
  const usual = bias ?? newBias();
  const lifted = new Map<readonly Token[], TokenBias>();
  return {
    tokenBias: () => {
      const tokens = preferred();
      if (tokens.length === 0) return usual;
      const known = lifted.get(tokens) ?? tokenBias(input, tokens) ?? usual;
      lifted.set(tokens, known);
      return known;
    },
  };
}

function tokenBias(
  { sampling, vocabularySize, newBias, banned }: SamplingInput,
  lifted: readonly Token[],
): TokenBias | undefined {
  const biases = Object.entries(sampling?.logitBias ?? {});
  if (biases.length === 0 && banned.length === 0 && lifted.length === 0) return undefined;
  const bias = newBias();
  for (const token of lifted) bias.set(token, { logit: PREFERENCE });
  for (const [id, logit] of biases) {
    const token = inRange("logit_bias", Number(id), 0, vocabularySize - 1);
    bias.set(token as Token, { logit: inRange("logit_bias", logit, -1000, 1000) });
  }
  for (const token of banned) bias.set(token, "never");
  return bias;
}

function inRange(field: string, value: number, low: number, high: number): number {
  if (value >= low && value <= high) return value;
  throw new EngineError("INVALID_REQUEST", `sampling.${field}: must be between ${low} and ${high}.`);
}
