import type { LlamaContextSequence, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import type { BatchDecoder } from "../runtime/batch-decoder.ts";
import {
  type NativeContext,
  type NativeSampler,
  newNativeSampler,
  samplerConfig,
} from "../runtime/library-internals.ts";
import { SEEDS } from "../tokens/sampling.ts";

export type Sample = { readonly token: Token; readonly probabilities?: ReadonlyMap<Token, number> };

export type SamplerOptions = {
  readonly evaluateOptions: SequenceEvaluateOptions;
  readonly probabilities: boolean;
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
    if (!this.#options.probabilities) return { token: chosen(await native.sampleToken(index, this.#native)) };
    const [token, pairs = []] = await native.sampleToken(index, this.#native, true);
    const probabilities = new Map<Token, number>();
    for (let at = 1; at < pairs.length; at += 2) probabilities.set(pairs[at - 1] as Token, pairs[at] ?? 0);
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
export function seedAt(seed: number, position: number): number {
  let mixed = seed ^ Math.imul(position + 1, 0x9e3779b9);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return ((mixed ^ (mixed >>> 15)) >>> 0) % SEEDS;
}
