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
 * The library's own evaluation costs 27 % more CPU a token with 8 or 16 streams of a small model. Throws `EngineError` ENGINE_DOWN if the
 * library is not the version whose internals are declared here.
 */
function nativeContext(context: LlamaContext): NativeContext {
  const { _ctx: native } = context as unknown as { readonly _ctx?: NativeContext };
  const methods = [native?.initBatch, native?.addToBatch, native?.decodeBatch, native?.sampleToken];
  if (!native || methods.some((method) => typeof method !== "function")) throw otherVersion();
  return native;
}

function sequenceId(sequence: LlamaContextSequence): number {
  return internalsOf(sequence)._sequenceId;
}

function noteEvaluated(sequence: LlamaContextSequence, tokens: readonly Token[]): void {
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

type Choose<Sample> = (native: NativeContext, index: number) => Promise<Sample>;

type Evaluation = {
  readonly sequence: LlamaContextSequence;
  readonly tokens: readonly Token[];
  evaluated: number;
  readonly choose: Choose<unknown> | undefined;
  readonly resolve: (sample: unknown) => void;
  readonly reject: (error: unknown) => void;
};

type Part = { readonly evaluation: Evaluation; readonly tokens: readonly Token[]; readonly isLast: boolean };

const NO_PLACES = new Uint32Array();

/**
 * Evaluates tokens with llama.cpp directly: requests of one moment form one batch. Ends of prompts get a batch before
 * the others, as llama.cpp computes them apart from single tokens anyway. No cache may be changed meanwhile.
 */
export class BatchDecoder {
  readonly #native: NativeContext;
  readonly #batchTokens: number;
  #waiting: Evaluation[] = [];
  #isDue = false;

  /** Throws `EngineError` ENGINE_DOWN if the library is another version. */
  constructor(context: LlamaContext) {
    this.#native = nativeContext(context);
    this.#batchTokens = context.batchSize;
  }

  /** Rejects with `EngineError` ENGINE_ERROR if the sequence is full or llama.cpp fails, its cache then undefined. */
  read(sequence: LlamaContextSequence, tokens: readonly Token[]): Promise<void> {
    return this.sample(sequence, tokens, undefined);
  }

  sample<Sample>(
    sequence: LlamaContextSequence,
    tokens: readonly Token[],
    choose: Choose<Sample> | undefined,
  ): Promise<Sample> {
    return new Promise<unknown>((resolve, reject) => {
      // The library would otherwise silently drop tokens from the start of the prompt.
      if (sequence.nextTokenIndex + tokens.length >= sequence.contextSize)
        return reject(new EngineError("ENGINE_ERROR", "The context is full."));
      this.#waiting.push({ sequence, tokens, evaluated: 0, choose, resolve, reject });
      if (this.#isDue) return;
      this.#isDue = true;
      // All steps of a round are requested before this runs, so that a batch needs no further tick of the event loop.
      process.nextTick(() => void this.#run());
    }) as Promise<Sample>;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#decode(this.#nextBatch());
    this.#isDue = false;
  }

  #nextBatch(): readonly Part[] {
    const parts: Part[] = [];
    let room = this.#batchTokens;
    const ends = this.#waiting.filter(({ choose, tokens }) => choose !== undefined && tokens.length > 1);
    for (const evaluation of ends.length > 0 ? ends : this.#waiting) {
      const { tokens, evaluated } = evaluation;
      const left = tokens.length - evaluated;
      const isLast = left <= room;
      const part = isLast && evaluated === 0 ? tokens : tokens.slice(evaluated, evaluated + room);
      parts.push({ evaluation, tokens: part, isLast });
      room -= part.length;
      if (room === 0) break;
    }
    const last = new Set(parts.filter(({ isLast }) => isLast).map(({ evaluation }) => evaluation));
    this.#waiting = this.#waiting.length === last.size ? [] : this.#waiting.filter((waiting) => !last.has(waiting));
    return parts;
  }

  async #decode(parts: readonly Part[]): Promise<void> {
    const native = this.#native;
    let indexes: readonly (number | undefined)[];
    try {
      native.initBatch(parts.reduce((sum, { tokens }) => sum + tokens.length, 0));
      indexes = parts.map((part) => added(native, part));
      await native.decodeBatch();
    } catch (error) {
      for (const { evaluation } of parts) this.#fail(evaluation, error);
      return;
    }
    // The next batch overwrites all distributions.
    await Promise.all(parts.map((part, at) => this.#finish(part, indexes[at])));
  }

  async #finish({ evaluation, tokens, isLast }: Part, index: number | undefined): Promise<void> {
    const { sequence, choose } = evaluation;
    noteEvaluated(sequence, tokens);
    evaluation.evaluated += tokens.length;
    try {
      const sample = choose && index !== undefined ? await choose(this.#native, index) : undefined;
      if (isLast) evaluation.resolve(sample);
    } catch (error) {
      this.#fail(evaluation, error);
    }
  }

  #fail(evaluation: Evaluation, error: unknown): void {
    evaluation.reject(error);
    this.#waiting = this.#waiting.filter((waiting) => waiting !== evaluation);
  }
}

/** Adds a part to the batch. Returns the index of the distribution after it; undefined if none is needed. */
function added(native: NativeContext, { evaluation, tokens, isLast }: Part): number | undefined {
  const { sequence, choose } = evaluation;
  const places = isLast && choose ? Uint32Array.of(tokens.length - 1) : NO_PLACES;
  return native.addToBatch(sequenceId(sequence), sequence.nextTokenIndex, Uint32Array.from(tokens), places)[0];
}
