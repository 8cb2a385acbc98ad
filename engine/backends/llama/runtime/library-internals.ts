import type { LlamaContext, LlamaContextSequence, LlamaModel, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

/** Samples tokens from the distribution of a batch. Its random state persists between tokens. */
export type NativeSampler = {
  /** Sets the sampling parameters. Unchanged parts keep their state. */
  applyConfig(config: object): void;
  /** Frees the memory of the sampler. No sample may be running. */
  dispose(): void;
};

/** A token, and the probabilities of all tokens: alternating tokens and probabilities, highest first. */
type NativeSample = readonly [token: Token, probabilities: readonly number[] | undefined];

/**
 * The context of llama.cpp. It has one batch, which another thread computes; no other method may be called meanwhile.
 */
export type NativeContext = {
  /** Starts a batch of `tokens` tokens, at most the batch size of the context. */
  initBatch(tokens: number): void;
  /**
   * Adds tokens of a sequence to the batch, the first at `position` of the sequence. Returns the indexes of the
   * distributions after the tokens at offsets `sampled`.
   */
  addToBatch(sequenceId: number, position: number, tokens: Uint32Array, sampled: Uint32Array): Uint32Array;
  /** Computes the batch. Rejects on failure. */
  decodeBatch(): Promise<void>;
  /** Samples a token from the distribution at the index; -1 if none is allowed. */
  sampleToken(index: number, sampler: NativeSampler): Promise<Token>;
  /** The same, with the probabilities of all tokens. */
  sampleToken(index: number, sampler: NativeSampler, probabilities: true): Promise<NativeSample>;
};

type SequenceInternals = {
  readonly _sequenceId: number;
  _nextTokenIndex: number;
  readonly _contextTokens: Token[];
  _resolveSamplerConfig(options: SequenceEvaluateOptions): object;
};

type ModelInternals = {
  readonly _model: object;
  readonly _llama: { readonly _bindings: { readonly AddonSampler: new (model: object) => NativeSampler } };
};

/**
 * Returns the llama.cpp context behind a library context: the library's own evaluation costs a tenth of a small model's
 * time per token. Throws `EngineError` ENGINE_DOWN if the library is not the version whose internals are declared here.
 */
export function nativeContext(context: LlamaContext): NativeContext {
  const { _ctx: native } = context as unknown as { readonly _ctx?: NativeContext };
  const methods = [native?.initBatch, native?.addToBatch, native?.decodeBatch, native?.sampleToken];
  if (!native || methods.some((method) => typeof method !== "function")) throw otherVersion();
  return native;
}

export function sequenceId(sequence: LlamaContextSequence): number {
  return internalsOf(sequence)._sequenceId;
}

/** Records evaluated tokens in a sequence, as the library's own evaluation would. */
export function noteEvaluated(sequence: LlamaContextSequence, tokens: readonly Token[]): void {
  const internals = internalsOf(sequence);
  internals._nextTokenIndex += tokens.length;
  for (const token of tokens) internals._contextTokens.push(token);
}

/** Converts evaluation options, none of which may be a function, to a sampler's configuration. */
export function samplerConfig(sequence: LlamaContextSequence, options: SequenceEvaluateOptions): object {
  return internalsOf(sequence)._resolveSamplerConfig(options);
}

/** Creates a sampler for tokens of the model. The caller disposes of it. */
export function newNativeSampler(model: LlamaModel): NativeSampler {
  const { _model, _llama } = model as unknown as ModelInternals;
  return new _llama._bindings.AddonSampler(_model);
}

function internalsOf(sequence: LlamaContextSequence): SequenceInternals {
  const internals = sequence as unknown as Partial<SequenceInternals>;
  const { _sequenceId, _nextTokenIndex, _contextTokens, _resolveSamplerConfig } = internals;
  const isKnown =
    typeof _sequenceId === "number" &&
    typeof _nextTokenIndex === "number" &&
    Array.isArray(_contextTokens) &&
    typeof _resolveSamplerConfig === "function";
  if (!isKnown) throw otherVersion();
  return internals as SequenceInternals;
}

function otherVersion(): EngineError {
  return new EngineError("ENGINE_DOWN", "node-llama-cpp is not the version that this engine supports.");
}
