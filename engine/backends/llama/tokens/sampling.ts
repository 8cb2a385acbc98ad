import type { SequenceEvaluateOptions, Token, TokenBias } from "node-llama-cpp";
import type { Sampling } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";

/** How a model samples where a request does not say; all of it may come from the model file. */
export type SamplingDefaults = {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
};

/** llama.cpp's own. */
const FALLBACK: SamplingDefaults = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 };

/** The penalties look back at most this far: the library copies the window at every step. */
const PENALTY_WINDOW_TOKENS = 2048;

/** llama.cpp takes 2^32 - 1 as "choose one yourself". */
const SEEDS = 4_294_967_295;

const MAX_TOP_LOGPROBS = 50;

export type SamplingOptions = Pick<
  SequenceEvaluateOptions,
  "temperature" | "topK" | "topP" | "minP" | "seed" | "repeatPenalty" | "tokenBias"
>;

export type SamplingInput = {
  readonly sampling: Sampling | undefined;
  readonly defaults: SamplingDefaults;
  readonly vocabularySize: number;
  /** The tokens generated so far, read at each step. */
  readonly generated: readonly Token[];
  /** For requests without one. */
  readonly randomSeed: () => number;
  readonly newBias: () => TokenBias;
  /** Tokens that must not come. */
  readonly banned: readonly Token[];
};

/** `general.sampling.*` of a GGUF file, as far as it is there and makes sense; `general` is that part of its metadata. */
export function samplingDefaults(general: object): SamplingDefaults {
  const sampling: unknown = Object.entries(general).find(([key]) => key === "sampling")?.[1];
  const found = new Map(typeof sampling === "object" && sampling !== null ? Object.entries(sampling) : []);
  const read = (key: string, fallback: number) => {
    const value: unknown = found.get(key);
    return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : fallback;
  };
  return {
    temperature: read("temp", FALLBACK.temperature),
    topK: Math.floor(read("top_k", FALLBACK.topK)),
    topP: Math.min(1, read("top_p", FALLBACK.topP)),
    minP: Math.min(1, read("min_p", FALLBACK.minP)),
  };
}

/**
 * Every parameter, spelled out: the library's defaults are not neutral. The penalties count generated tokens only.
 * Throws `EngineError` INVALID_REQUEST for what is out of range: the library would sample garbage.
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
  const bias = tokenBias(input);
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
    ...(bias ? { tokenBias: bias } : {}),
  };
}

/** Alternatives per token; `undefined` when no log probabilities are wanted. Throws `EngineError` INVALID_REQUEST. */
export function wantedLogprobs(sampling: Sampling | undefined): number | undefined {
  const wanted = sampling?.topLogprobs;
  return wanted === undefined ? undefined : inRange("top_logprobs", wanted, 0, MAX_TOP_LOGPROBS);
}

function tokenBias({ sampling, vocabularySize, newBias, banned }: SamplingInput): TokenBias | undefined {
  const biases = Object.entries(sampling?.logitBias ?? {});
  if (biases.length === 0 && banned.length === 0) return undefined;
  const bias = newBias();
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
