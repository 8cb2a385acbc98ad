import type { LlamaContext, LlamaContextSequence, LlamaModel, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

export type NativeSampler = {
  /** Unchanged parts keep their state. */
  applyConfig(config: object): void;
  /** No sample may be running. */
  dispose(): void;
};

/** A token, and the probabilities of all tokens: alternating tokens and probabilities, highest first. */
type NativeSample = readonly [token: Token, probabilities: readonly number[] | undefined];

/** It has one batch, which another thread computes; no other method may be called meanwhile. */
export type NativeContext = {
  initBatch(tokens: number): void;
  /** The first token stands at `position`. Returns the indexes of the distributions after the offsets `sampled`. */
  addToBatch(sequenceId: number, position: number, tokens: Uint32Array, sampled: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  /** Samples a token from the distribution at the index; -1 if none is allowed. */
  sampleToken(index: number, sampler: NativeSampler): Promise<Token>;
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
 * The library's own evaluation costs a tenth of a small model's time per token. Throws `EngineError` ENGINE_DOWN if the
 * library is not the version whose internals are declared here.
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

export function noteEvaluated(sequence: LlamaContextSequence, tokens: readonly Token[]): void {
  const internals = internalsOf(sequence);
  internals._nextTokenIndex += tokens.length;
  for (const token of tokens) internals._contextTokens.push(token);
}

export function samplerConfig(sequence: LlamaContextSequence, options: SequenceEvaluateOptions): object {
  return internalsOf(sequence)._resolveSamplerConfig(options);
}

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
