import type {
  LlamaContext,
  LlamaContextSequence,
  LlamaModel,
  SequenceEvaluateOptions,
  Token,
  TokenBias,
} from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import type { EvaluatedBatch } from "../slots/prefill-turns.ts";
import { gapsOf, moveOf, passesOf } from "./passes.ts";
import type { ThreadFit } from "./thread-fit.ts";

export type NativeSampler = {
  /** Unchanged parts keep their state. */
  applyConfig(config: object): void;
  /** No sample may be running. */
  dispose(): void;
};

/** Alternating tokens and logits, highest first, then of those asked for; and the sum of all weights, the highest being 1. */
type NativeSample = readonly [token: Token, _: unknown, _: unknown, logits: readonly number[], weight: number];
type NativeLogits = readonly [of: readonly Token[], highest: boolean, lowest: boolean, sampled: boolean, top: number];

/** It has one batch, which another thread computes; no other method may be called meanwhile. */
export type NativeContext = {
  initBatch(tokens: number): void;
  /** The first token stands at `position`. Returns the indexes of the distributions after the offsets `sampled`. */
  addToBatch(sequenceId: number, position: number, tokens: Uint32Array, sampled: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  setThreads(threads: number): void;
  /** Samples a token from the distribution at the index; -1 if none is allowed. */
  sampleToken(index: number, sampler: NativeSampler): Promise<Token>;
  sampleToken(
    index: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: NativeLogits,
    weight: true,
  ): Promise<NativeSample>;
  removeTokenCellsFromSequence(sequenceId: number, from: number, to: number): boolean;
  /** Copies a whole cache; its memory at the next batch. */
  copySequenceStateFromOtherSequence(to: number, from: number): Promise<number>;
  disposeSequence(sequenceId: number): void;
};

type SequenceInternals = {
  _sequenceId: number;
  _nextTokenIndex: number;
  readonly _contextTokens: Token[];
  _resolveSamplerConfig(options: SequenceEvaluateOptions): { readonly topK: number; readonly topP: number };
  /** Copies the cache with its checkpoints, and cuts it to so many tokens. Resolves to whether it has them. */
  _copyStateFromOtherSequence(other: LlamaContextSequence, tokens: number): Promise<boolean>;
};

type ModelInternals = {
  readonly _model: object;
  readonly _llama: { readonly _bindings: { readonly AddonSampler: new (model: object) => NativeSampler } };
};

const METHODS = [
  "initBatch",
  "addToBatch",
  "decodeBatch",
  "setThreads",
  "sampleToken",
  "removeTokenCellsFromSequence",
  "copySequenceStateFromOtherSequence",
  "disposeSequence",
] as const;

/**
 * The library's own evaluation costs 27 % more CPU a token with 8 or 16 streams of a small model. Throws `EngineError` ENGINE_DOWN if the
 * library is not the version whose internals are declared here.
 */
function nativeContext(context: LlamaContext): NativeContext {
  const { _ctx: native } = context as unknown as { readonly _ctx?: NativeContext };
  if (!native || METHODS.some((name) => typeof native[name] !== "function")) throw otherVersion();
  return native;
}

/** llama.cpp sorts as many tokens as top_k keeps: more than these take milliseconds, for which all streams wait. */
const MAX_SORTED_TOKENS = 8192;

/** Without a bound by top_k, tokens are drawn unsorted, or where top_p needs them sorted from the first 8192. */
export function samplerConfig(sequence: LlamaContextSequence, options: SequenceEvaluateOptions): object {
  const { topK, ...config } = internalsOf(sequence)._resolveSamplerConfig(options);
  if (topK > 0 && topK <= MAX_SORTED_TOKENS) return { ...config, topK };
  return config.topP < 1 ? { ...config, topK: MAX_SORTED_TOKENS } : config;
}

/** `TokenBias.set` skips the tokens that end an answer. */
export function newTokenBias({ tokenizer }: LlamaModel, biases: ReadonlyMap<Token, number>): TokenBias {
  return { _tokenizer: tokenizer, _biases: biases } as unknown as TokenBias;
}

export function newNativeSampler(model: LlamaModel): NativeSampler {
  const { _model, _llama } = model as unknown as ModelInternals;
  return new _llama._bindings.AddonSampler(_model);
}

function internalsOf(sequence: LlamaContextSequence): SequenceInternals {
  return sequence as unknown as SequenceInternals;
}

function idOf({ sequence }: { readonly sequence: LlamaContextSequence }): number {
  return internalsOf(sequence)._sequenceId;
}

function inOrder<Of extends { readonly sequence: LlamaContextSequence }>(parts: readonly Of[]): Of[] {
  return parts.toSorted((one, other) => idOf(one) - idOf(other));
}

function assertKnown(sequence: LlamaContextSequence): void {
  const internals = internalsOf(sequence);
  const isKnown =
    typeof internals._sequenceId === "number" &&
    typeof internals._nextTokenIndex === "number" &&
    Array.isArray(internals._contextTokens) &&
    typeof internals._resolveSamplerConfig === "function" &&
    typeof internals._copyStateFromOtherSequence === "function";
  if (!isKnown) throw otherVersion();
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

type Part = {
  readonly sequence: LlamaContextSequence;
  readonly tokens: readonly Token[];
  /** Undefined for a throwaway token. */
  readonly evaluation: Evaluation | undefined;
  readonly isLast: boolean;
};

const NO_PLACES = new Uint32Array();
const THROWAWAY: readonly Token[] = [0 as Token];

/** What a pass of llama.cpp costs beside its tokens, in tokens of a wide pass: measured 2 to 5 on CPUs, 37 on a GPU. */
const CPU_PASS_TOKENS = 6;
const GPU_PASS_TOKENS = 32;
/** The cost of scattered sequences so far, in tokens, for which one is moved: copying two caches costs about as much. */
const MOVE_TOKENS = 32;
/** llama.cpp reads the caches of a pass as far as the longest of them, in steps of so many tokens. */
const CACHE_STEP_TOKENS = 256;

/**
 * Evaluates tokens with llama.cpp directly: requests of one moment form one batch. Ends of prompts get a batch before
 * the others, as llama.cpp computes them apart from single tokens anyway. No cache may be changed meanwhile.
 *
 * llama.cpp computes sequences in one pass only if their numbers follow each other. A throwaway token of each sequence
 * in a gap closes it, and is cut off again. Where that keeps costing, caches are moved together.
 */
export class BatchDecoder {
  readonly batchTokens: number;
  /** The passes of llama.cpp so far, and how many of them the gaps between sequences caused. */
  passes = 0;
  passesForGaps = 0;
  onBatch: (batch: EvaluatedBatch) => void = () => {};
  /** Called when another number of threads computes from the next batch on. */
  onThreads: (threads: number) => void = () => {};
  readonly #native: NativeContext;
  /** In order of their numbers. */
  readonly #sequences: LlamaContextSequence[];
  readonly #passTokens: number;
  readonly #fit: ThreadFit | undefined;
  #waiting: Evaluation[] = [];
  #isDue = false;
  #wasted = 0;

  /**
   * Takes all sequences of the context; `fit` sets its number of threads, which is fixed without. Throws `EngineError`
   * ENGINE_DOWN if the library is another version.
   */
  constructor(context: LlamaContext, sequences: readonly LlamaContextSequence[], onGpu: boolean, fit?: ThreadFit) {
    this.#fit = fit;
    this.#native = nativeContext(context);
    this.batchTokens = context.batchSize;
    this.#passTokens = onGpu ? GPU_PASS_TOKENS : CPU_PASS_TOKENS;
    for (const sequence of sequences) assertKnown(sequence);
    this.#sequences = inOrder(sequences.map((sequence) => ({ sequence }))).map(({ sequence }) => sequence);
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

  /**
   * Copies the whole cache of a sequence to an empty one, its memory at the next batch, before that is computed. Resolves to
   * whether it is complete; else it is to be cleared.
   */
  copy(to: LlamaContextSequence, from: LlamaContextSequence): Promise<boolean> {
    return internalsOf(to)._copyStateFromOtherSequence(from, from.nextTokenIndex);
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#decode(this.#nextBatch());
    this.#isDue = false;
  }

  #nextBatch(): readonly Part[] {
    const parts: Part[] = [];
    let free = this.batchTokens;
    const ends = this.#waiting.filter(({ choose, tokens }) => choose !== undefined && tokens.length > 1);
    for (const evaluation of ends.length > 0 ? ends : this.#waiting) {
      const { sequence, tokens, evaluated } = evaluation;
      const left = tokens.length - evaluated;
      const isLast = left <= free;
      const part = isLast && evaluated === 0 ? tokens : tokens.slice(evaluated, evaluated + free);
      parts.push({ sequence, tokens: part, evaluation, isLast });
      free -= part.length;
      if (free === 0) break;
    }
    const last = new Set(parts.filter(({ isLast }) => isLast).map(({ evaluation }) => evaluation));
    this.#waiting = this.#waiting.length === last.size ? [] : this.#waiting.filter((waiting) => !last.has(waiting));
    return parts;
  }

  async #decode(parts: readonly Part[]): Promise<void> {
    const native = this.#native;
    let batch = parts;
    let indexes: readonly (number | undefined)[];
    try {
      // Prompts are computed apart anyway, as they differ in length.
      const decodes = parts.some(({ tokens }) => tokens.length === 1);
      if (decodes && this.#wasted >= MOVE_TOKENS) await this.#move(parts);
      batch = this.#arranged(parts, decodes);
      native.initBatch(tokensOf(batch));
      indexes = batch.map((part) => added(native, part));
      const beganMs = performance.now();
      const began = this.#fit && process.cpuUsage();
      await native.decodeBatch();
      const ms = performance.now() - beganMs;
      if (began) this.#fitThreads(ms, began);
      const chunks = batch.filter(({ tokens }) => tokens.length > 1);
      this.onBatch({
        chunks: chunks.map(({ sequence, tokens }) => ({ before: sequence.nextTokenIndex, tokens: tokens.length })),
        hasStreams: chunks.length < batch.length,
        ms,
      });
    } catch (error) {
      for (const { evaluation } of parts) if (evaluation) this.#fail(evaluation, error);
      return;
    } finally {
      for (const { evaluation, sequence } of batch)
        if (!evaluation) native.removeTokenCellsFromSequence(idOf({ sequence }), sequence.nextTokenIndex, -1);
    }
    // The next batch overwrites all distributions.
    await Promise.all(batch.map((part, at) => this.#finish(part, indexes[at])));
  }

  #fitThreads(wallMs: number, began: NodeJS.CpuUsage): void {
    const { user, system } = process.cpuUsage(began);
    if (!this.#fit?.observe(wallMs, (user + system) / 1000)) return;
    this.#native.setThreads(this.#fit.count);
    this.onThreads(this.#fit.count);
  }

  /** Returns the batch of these parts, in order of their numbers, with throwaway tokens where they save passes. */
  #arranged(parts: readonly Part[], decodes: boolean): readonly Part[] {
    const batch = inOrder(parts);
    const ids = batch.map(idOf);
    const isTogether = !decodes || (ids.at(-1) ?? 0) - (ids[0] ?? 0) < ids.length;
    const fillers = isTogether ? [] : this.#fillers(batch, ids);
    const whole = fillers.length === 0 ? batch : inOrder([...batch, ...fillers]);
    const passes = passesOf(whole.map((part) => ({ id: idOf(part), tokens: part.tokens.length })));
    this.passes += passes;
    if (isTogether) return whole;
    const forGaps = passes - passesOf(batch.map(({ tokens }, id) => ({ id, tokens: tokens.length })));
    this.passesForGaps += forGaps;
    this.#wasted += fillers.length + forGaps * this.#passTokens;
    return whole;
  }

  #fillers(batch: readonly Part[], ids: readonly number[]): readonly Part[] {
    const longest = Math.max(...batch.map(({ sequence }) => sequence.nextTokenIndex));
    const gaps = gapsOf(ids, this.#passTokens, (id) => {
      const { needsCheckpoints, nextTokenIndex, contextSize } = this.#at(id);
      return !needsCheckpoints && nextTokenIndex <= longest + CACHE_STEP_TOKENS && nextTokenIndex + 1 < contextSize;
    });
    if (tokensOf(batch) + gaps.length > this.batchTokens) return [];
    return gaps.map((id) => ({ sequence: this.#at(id), tokens: THROWAWAY, evaluation: undefined, isLast: false }));
  }

  #at(id: number): LlamaContextSequence {
    const sequence = this.#sequences[id];
    if (!sequence) throw otherVersion();
    return sequence;
  }

  /** Copies the cache of one sequence next to the others, and the cache in its way to an empty sequence. */
  async #move(parts: readonly Part[]): Promise<void> {
    const ids = inOrder(parts).map(idOf);
    const isEmpty = (id: number) => this.#at(id).nextTokenIndex === 0 && !ids.includes(id);
    const move = moveOf(ids, this.#sequences.length, isEmpty);
    if (move && !isEmpty(move.to)) {
      const empty = this.#sequences.findIndex((_, id) => isEmpty(id));
      if (empty < 0) return;
      await this.#copy(move.to, empty);
    }
    if (move) await this.#copy(move.from, move.to);
    this.#wasted = 0;
  }

  /** Moves the cache of one number to another, which is empty, and exchanges the numbers of their sequences. */
  async #copy(from: number, to: number): Promise<void> {
    const [moved, other] = [this.#at(from), this.#at(to)];
    await this.#native.copySequenceStateFromOtherSequence(to, from);
    this.#native.disposeSequence(from);
    internalsOf(moved)._sequenceId = to;
    internalsOf(other)._sequenceId = from;
    this.#sequences[to] = moved;
    this.#sequences[from] = other;
  }

  async #finish({ sequence, evaluation, tokens, isLast }: Part, index: number | undefined): Promise<void> {
    if (!evaluation) return;
    const { choose } = evaluation;
    const internals = internalsOf(sequence);
    internals._nextTokenIndex += tokens.length;
    for (const token of tokens) internals._contextTokens.push(token);
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

function tokensOf(batch: readonly Part[]): number {
  return batch.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

/** Adds a part to the batch. Returns the index of the distribution after it; undefined if none is needed. */
function added(native: NativeContext, { sequence, evaluation, tokens, isLast }: Part): number | undefined {
  const places = isLast && evaluation?.choose ? Uint32Array.of(tokens.length - 1) : NO_PLACES;
  const { _sequenceId } = internalsOf(sequence);
  return native.addToBatch(_sequenceId, sequence.nextTokenIndex, Uint32Array.from(tokens), places)[0];
}
