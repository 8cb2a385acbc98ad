import type { LlamaContext, LlamaContextSequence, LlamaModel, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

/** Chooses tokens by the distribution that a batch has given. It keeps the state of its chance from token to token. */
export type NativeSampler = {
  /** Sets how tokens are chosen from now on; what stays as it was keeps its state. */
  applyConfig(config: object): void;
  /** Frees the memory of the sampler, which must not be choosing a token. */
  dispose(): void;
};

/** A token, and the probabilities of all: a token and its probability by turns, the likeliest first. */
type NativeSample = readonly [token: Token, probabilities: readonly number[] | undefined];

/** The context of llama.cpp. It has one batch, which it computes on another thread; nothing else may be asked meanwhile. */
export type NativeContext = {
  /** Begins a batch of so many tokens, at most the batch size of the context. */
  initBatch(tokens: number): void;
  /**
   * Puts tokens of a sequence into the batch, the first of them at `position` of the sequence, and returns under which
   * indexes the distribution behind those at the places `sampled` can be asked for.
   */
  addToBatch(sequenceId: number, position: number, tokens: Uint32Array, sampled: Uint32Array): Uint32Array;
  /** Computes the batch. Rejects where it cannot. */
  decodeBatch(): Promise<void>;
  /** Chooses a token by the distribution under the index; -1 where there is none to choose. */
  sampleToken(index: number, sampler: NativeSampler): Promise<Token>;
  /** The same, with the probabilities of all tokens. */
  sampleToken(index: number, sampler: NativeSampler, probabilities: true): Promise<NativeSample>;
};

/** What a sequence of the library keeps of itself. */
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
 * Returns the context of llama.cpp behind one of the library, whose own evaluation takes as long for a token of a small
 * model as a tenth of computing it. Throws `EngineError` ENGINE_DOWN where the library is another version than the one
 * whose inside is written down here.
 */
export function nativeContext(context: LlamaContext): NativeContext {
  const { _ctx: native } = context as unknown as { readonly _ctx?: NativeContext };
  const methods = [native?.initBatch, native?.addToBatch, native?.decodeBatch, native?.sampleToken];
  if (!native || methods.some((method) => typeof method !== "function")) throw otherVersion();
  return native;
}

/** Returns the number by which llama.cpp knows a sequence. Throws as `nativeContext` does. */
export function sequenceId(sequence: LlamaContextSequence): number {
  return internalsOf(sequence)._sequenceId;
}

/** Notes that tokens have been evaluated behind those of a sequence, as the library's own evaluation would. */
export function noteEvaluated(sequence: LlamaContextSequence, tokens: readonly Token[]): void {
  const internals = internalsOf(sequence);
  internals._nextTokenIndex += tokens.length;
  for (const token of tokens) internals._contextTokens.push(token);
}

/** Returns the options of the library's evaluation, none of which is a function, as a sampler takes them. */
export function samplerConfig(sequence: LlamaContextSequence, options: SequenceEvaluateOptions): object {
  return internalsOf(sequence)._resolveSamplerConfig(options);
}

/** Makes a sampler for tokens of the model. Whoever makes it disposes of it. */
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
  return new EngineError("ENGINE_DOWN", "node-llama-cpp is not the version that this engine was made for.");
}
