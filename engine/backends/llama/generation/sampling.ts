import type { LlamaContextSequence, LlamaModel, SequenceEvaluateOptions, Token, TokenBias } from "node-llama-cpp";
import type { Sampling, TokenLogprob } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import {
  type BatchDecoder,
  type NativeContext,
  type NativeSampler,
  newNativeSampler,
  samplerConfig,
} from "../runtime/batch-decoder.ts";

export type SamplingDefaults = {
  readonly temperature: number;
  /** The number of most likely tokens to draw from; 0 for all. */
  readonly topK: number;
  readonly topP: number;
  /** The fraction of the most likely token's probability, from 0 to 1, below which tokens are excluded. */
  readonly minP: number;
};

const FALLBACK: SamplingDefaults = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 };

/** llama.cpp divides by the temperature in 32 bits: with a lower one logits overflow, and any token may be drawn. */
const LEAST_TEMPERATURE = 1e-30;

/** The penalty window, in tokens: the library copies it at every step. */
const PENALTY_WINDOW_TOKENS = 2048;

/** The number of seeds: llama.cpp reads 2^32 - 1 as a random seed. */
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
  /** The tokens generated so far; the list grows and is read at each step. */
  readonly generated: readonly Token[];
  readonly randomSeed: () => number;
  readonly newBias: (biases: ReadonlyMap<Token, number>) => TokenBias;
  readonly banned: readonly Token[];
  /** The tokens that end an answer. */
  readonly ends: readonly Token[];
};

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

/** All explicit: the library's defaults are not neutral. Throws `EngineError` INVALID_REQUEST beyond the ranges. */
export function toSamplingOptions(input: SamplingInput): SamplingOptions {
  const { sampling, defaults, generated } = input;
  const seed = sampling?.seed;
  const penalties = {
    penalty: inRange("repetition_penalty", sampling?.repetitionPenalty ?? 1, 0.01, 10),
    frequencyPenalty: inRange("frequency_penalty", sampling?.frequencyPenalty ?? 0, -2, 2),
    presencePenalty: inRange("presence_penalty", sampling?.presencePenalty ?? 0, -2, 2),
  };
  const penalised = penalties.penalty !== 1 || penalties.frequencyPenalty !== 0 || penalties.presencePenalty !== 0;
  const bias = tokenBias(input, input.banned);
  const least = sampling?.minOutputTokens ?? 0;
  const endless = least > 0 ? tokenBias(input, [...input.banned, ...input.ends]) : undefined;
  const temperature = inRange("temperature", sampling?.temperature ?? defaults.temperature, 0, 100);
  return {
    temperature: temperature < LEAST_TEMPERATURE ? 0 : temperature,
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
    // Read at each step.
    ...(endless
      ? { tokenBias: (() => (generated.length < least ? endless : bias)) as never }
      : bias && { tokenBias: bias }),
  };
}

export function isDrawn({ temperature }: SamplingOptions): boolean {
  return temperature !== undefined && temperature > 0;
}

/** Every field, so that a new one does not compile until it is read here. A seed that was generated here is left out. */
export function usedSampling({ temperature, topK, topP, minP, repeatPenalty }: SamplingOptions): {
  readonly [Key in keyof Required<Sampling>]: Sampling[Key];
} {
  return {
    temperature,
    topK,
    topP,
    minP,
    frequencyPenalty: repeatPenalty?.frequencyPenalty ?? 0,
    presencePenalty: repeatPenalty?.presencePenalty ?? 0,
    repetitionPenalty: repeatPenalty?.penalty ?? 1,
    seed: undefined,
    topLogprobs: undefined,
    stop: [],
    logitBias: {},
    minOutputTokens: undefined,
  };
}

/** Alternatives per token, 0 to 50; undefined without log probabilities. Throws `EngineError` INVALID_REQUEST. */
export function wantedLogprobs(sampling: Sampling | undefined): number | undefined {
  const wanted = sampling?.topLogprobs;
  return wanted === undefined ? undefined : inRange("top_logprobs", wanted, 0, MAX_TOP_LOGPROBS);
}

function tokenBias(
  { sampling, vocabularySize, newBias }: SamplingInput,
  banned: readonly Token[],
): TokenBias | undefined {
  const biases = Object.entries(sampling?.logitBias ?? {});
  if (biases.length === 0 && banned.length === 0) return undefined;
  const all = new Map<Token, number>();
  for (const [id, logit] of biases) {
    const token = inRange("logit_bias", Number(id), 0, vocabularySize - 1);
    all.set(token as Token, inRange("logit_bias", logit, -1000, 1000));
  }
  for (const token of banned) all.set(token, Number.NEGATIVE_INFINITY);
  return newBias(all);
}

function inRange(field: string, value: number, low: number, high: number): number {
  if (value >= low && value <= high) return value;
  throw new EngineError("INVALID_REQUEST", `sampling.${field}: must be between ${low} and ${high}.`);
}

/** The log probability of an impossible token, as JSON has no infinity. */
const LOWEST = -9999;

/** In the distribution from which the token was drawn: after temperature, top-p and the like. */
export function toTokenLogprob(
  model: LlamaModel,
  token: Token,
  probabilities: ReadonlyMap<Token, number>,
  alternatives: number,
): TokenLogprob {
  const spellings = model.vocabularyType === "bpe" ? model.fileInfo.metadata.tokenizer.ggml.tokens : [];
  const describe = (id: Token, probability: number) => {
    const text = model.detokenize([id], true);
    const logprob = Math.max(LOWEST, Math.log(probability));
    return { token: text, tokenBytes: tokenBytes(text, spellings[id]), logprob };
  };
  return {
    ...describe(token, probabilities.get(token) ?? 0),
    alternatives: firstEntries(probabilities, alternatives).map(([id, probability]) => describe(id, probability)),
  };
}

function firstEntries(map: ReadonlyMap<Token, number>, count: number): readonly (readonly [Token, number])[] {
  const entries: (readonly [Token, number])[] = [];
  for (const entry of map) {
    if (entries.length >= count) break;
    entries.push(entry);
  }
  return entries;
}

/** GPT-2's scheme: printable bytes represent themselves, the others are mapped to characters from U+0100 on. */
const BYTE_OF = byteLevelAlphabet();

/** The bytes of the text if it is valid, else those of a byte-level spelling; empty if unknown. */
export function tokenBytes(text: string, spelling: string | undefined): Buffer {
  if (!text.includes("\uFFFD")) return Buffer.from(text, "utf8");
  const bytes = [...(spelling ?? "")].map((character) => BYTE_OF.get(character));
  return bytes.every((byte) => byte !== undefined) ? Buffer.from(bytes) : Buffer.alloc(0);
}

function byteLevelAlphabet(): ReadonlyMap<string, number> {
  const alphabet = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    alphabet.set(String.fromCharCode(printable ? byte : next), byte);
    if (!printable) next += 1;
  }
  return alphabet;
}

export type Sample = { readonly token: Token; readonly probabilities?: ReadonlyMap<Token, number> };

export type SamplerOptions = {
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** How many of the most likely tokens have their probabilities in a sample; undefined for none. */
  readonly alternatives: number | undefined;
  /** A token whose probability a sample has as well. */
  readonly given?: () => Token | undefined;
  /** From 0 to 2^32 - 2. Randomness depends on it and the position alone, so that a continuation draws the same. */
  readonly seed: number | undefined;
  readonly position: () => number;
};

export class Sampler {
  readonly #decoder: BatchDecoder;
  readonly #sequence: LlamaContextSequence;
  readonly #options: SamplerOptions;
  readonly #native: NativeSampler;
  readonly #counts: boolean;
  #grammarState: unknown;
  #tokenBias: unknown;
  #seed: number | undefined;
  #isSet = false;

  constructor(decoder: BatchDecoder, sequence: LlamaContextSequence, options: SamplerOptions) {
    this.#decoder = decoder;
    this.#sequence = sequence;
    this.#options = options;
    this.#counts = options.evaluateOptions.repeatPenalty !== undefined;
    this.#native = newNativeSampler(sequence.model);
  }

  next(tokens: readonly Token[]): Promise<Sample> {
    return this.#decoder.sample(this.#sequence, tokens, this.#choose);
  }

  /** Frees the native sampler. No sample may be running, and none may follow. */
  close(): void {
    this.#native.dispose();
  }

  readonly #choose = async (native: NativeContext, index: number): Promise<Sample> => {
    this.#set();
    const { alternatives, given } = this.#options;
    if (alternatives === undefined) return { token: chosen(await native.sampleToken(index, this.#native)) };
    const wanted = given?.() ?? (-1 as Token);
    const logits = [[wanted], false, false, true, Math.max(1, alternatives)] as const;
    const [token, , , pairs, weight] = await native.sampleToken(index, this.#native, false, false, logits, true);
    const probabilities = new Map<Token, number>();
    const [, highest = 0] = pairs ?? [];
    for (let at = 1; at < (pairs?.length ?? 0); at += 2)
      probabilities.set(pairs[at - 1] as Token, Math.exp((pairs[at] ?? 0) - highest) / weight);
    return { token: chosen(token), probabilities };
  };

  #set(): void {
    const { evaluateOptions, seed: ofCaller, position } = this.#options;
    const grammarState = presentOf(evaluateOptions.grammarEvaluationState);
    const tokenBias = presentOf(evaluateOptions.tokenBias);
    const seed = ofCaller === undefined ? evaluateOptions.seed : seedAt(ofCaller, position());
    const isSame = grammarState === this.#grammarState && tokenBias === this.#tokenBias && seed === this.#seed;
    if (isSame && this.#isSet && !this.#counts) return;
    const now = {
      ...evaluateOptions,
      grammarEvaluationState: grammarState,
      tokenBias,
      seed,
    } as SequenceEvaluateOptions;
    this.#native.applyConfig(samplerConfig(this.#sequence, now));
    this.#grammarState = grammarState;
    this.#tokenBias = tokenBias;
    this.#seed = seed;
    this.#isSet = true;
  }
}

function presentOf(given: unknown): unknown {
  return typeof given === "function" ? given() : given;
}

/** Returns the token. Throws `EngineError` ENGINE_ERROR if the model allowed none. */
function chosen(token: Token): Token {
  if (token < 0) throw new EngineError("ENGINE_ERROR", "The model gave no token.");
  return token;
}

/** Returns the seed of the token at a position, from 0 to 2^32 - 2. Seeds of adjacent positions are unrelated. */
function seedAt(seed: number, position: number): number {
  let mixed = seed ^ Math.imul(position + 1, 0x9e3779b9);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return ((mixed ^ (mixed >>> 15)) >>> 0) % SEEDS;
}
