import type { LlamaContext, LlamaContextSequence, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";
import { type NativeContext, nativeContext, noteEvaluated, sequenceId } from "./library-internals.ts";

/** Chooses a token by the distribution that the context has under the index. */
export type Choose<Sample> = (native: NativeContext, index: number) => Promise<Sample>;

/** Tokens that are to be evaluated behind those which their sequence has. */
type Evaluation = {
  readonly sequence: LlamaContextSequence;
  readonly tokens: readonly Token[];
  /** How many of them are evaluated. */
  evaluated: number;
  /** Chooses a token by the distribution behind the last one; undefined where none is wanted. */
  readonly choose: Choose<unknown> | undefined;
  readonly resolve: (sample: unknown) => void;
  readonly reject: (error: unknown) => void;
};

/** The tokens of an evaluation that are in a batch. */
type Part = { readonly evaluation: Evaluation; readonly tokens: readonly Token[]; readonly isLast: boolean };

const NO_PLACES = new Uint32Array();

/**
 * Evaluates tokens with llama.cpp itself. What is asked for at once makes one batch, in that order; what does not fit
 * makes further ones. The ends of prompts, behind which a first token is chosen, have a batch before the others: llama.cpp
 * computes several tokens of a sequence apart from the single ones of others anyway, and whoever has come need not wait for
 * those. While it computes, no cache of the context may be changed (`slots/steps.ts`).
 */
export class BatchDecoder {
  readonly #native: NativeContext;
  readonly #batchTokens: number;
  #waiting: Evaluation[] = [];
  #isDue = false;

  /** Makes the decoder of a context. Throws `EngineError` ENGINE_DOWN where the library is of another version. */
  constructor(context: LlamaContext) {
    this.#native = nativeContext(context);
    this.#batchTokens = context.batchSize;
  }

  /**
   * Evaluates tokens behind those that the sequence has. Rejects with `EngineError` ENGINE_ERROR where it has no room for
   * them, and where llama.cpp fails: what of them is in the cache is not known then.
   */
  read(sequence: LlamaContextSequence, tokens: readonly Token[]): Promise<void> {
    return this.#evaluate(sequence, tokens, undefined);
  }

  /** Evaluates tokens, at least one, as `read` does, and resolves to what is chosen behind the last of them. */
  sample<Sample>(sequence: LlamaContextSequence, tokens: readonly Token[], choose: Choose<Sample>): Promise<Sample> {
    return this.#evaluate(sequence, tokens, choose);
  }

  #evaluate<Sample>(
    sequence: LlamaContextSequence,
    tokens: readonly Token[],
    choose: Choose<Sample> | undefined,
  ): Promise<Sample> {
    return new Promise<unknown>((resolve, reject) => {
      // Nothing is ever dropped from the start of a prompt without a word.
      if (sequence.nextTokenIndex + tokens.length >= sequence.contextSize)
        return reject(new EngineError("ENGINE_ERROR", "The context is full."));
      this.#waiting.push({ sequence, tokens, evaluated: 0, choose, resolve, reject });
      if (this.#isDue) return;
      this.#isDue = true;
      // All steps of a round are asked for before this runs, so that a batch needs no turn of the event loop more.
      process.nextTick(() => void this.#run());
    }) as Promise<Sample>;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#decode(this.#nextBatch());
    this.#isDue = false;
  }

  /** Takes as many tokens as a batch may have, of those who came first. */
  #nextBatch(): readonly Part[] {
    const parts: Part[] = [];
    let room = this.#batchTokens;
    const ends = this.#waiting.filter(isPromptEnd);
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
    // The next batch takes the place of all distributions.
    await Promise.all(parts.map((part, at) => this.#finish(part, indexes[at])));
  }

  /** Notes that a part is evaluated, and settles its evaluation where it was the last one. Never rejects. */
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

  /** Fails an evaluation, of which nothing more is evaluated. */
  #fail(evaluation: Evaluation, error: unknown): void {
    evaluation.reject(error);
    this.#waiting = this.#waiting.filter((waiting) => waiting !== evaluation);
  }
}

/** Returns whether several tokens are to be evaluated, and one to be chosen behind them. */
function isPromptEnd({ choose, tokens }: Evaluation): boolean {
  return choose !== undefined && tokens.length > 1;
}

/** Puts a part into the batch. Returns the index of the distribution behind it; undefined where none is wanted. */
function added(native: NativeContext, { evaluation, tokens, isLast }: Part): number | undefined {
  const { sequence, choose } = evaluation;
  const places = isLast && choose ? Uint32Array.of(tokens.length - 1) : NO_PLACES;
  return native.addToBatch(sequenceId(sequence), sequence.nextTokenIndex, Uint32Array.from(tokens), places)[0];
}
