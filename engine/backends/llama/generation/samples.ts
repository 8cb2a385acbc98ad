import type { LlamaContextSequence, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import { SEEDS } from "../tokens/sampling.ts";

/** A token as the library gives it; the probabilities only where they were asked for. */
export type Sample = { readonly token: Token; readonly probabilities?: Map<Token, number> };

/** Samples, each behind the tokens that are handed in for the one before. */
export type Samples = AsyncGenerator<Sample, void, undefined | Token[]>;

/** How an answer is sampled. */
export type SamplesOptions = {
  /** The parameters with which the library is to sample. */
  readonly evaluateOptions: SequenceEvaluateOptions;
  /** Whether the probabilities of all tokens are wanted. */
  readonly probabilities: boolean;
  /**
   * The caller's seed, from 0 to 2^32 - 2; undefined where it gave none. With it, chance depends on nothing but the seed
   * and the position of a token in its answer, so that another call that goes on with the answer draws the same.
   */
  readonly seed: number | undefined;
  /** Returns the position in the answer of the token that comes next, from 0. */
  readonly position: () => number;
};

/** Begins to sample behind `tail`, which is evaluated first and not empty. */
export function startSamples(sequence: LlamaContextSequence, tail: readonly Token[], options: SamplesOptions): Samples {
  const { evaluateOptions, probabilities, seed } = options;
  if (seed !== undefined) return seeded(sequence, tail, { ...options, seed });
  // The two calls differ in their types.
  if (!probabilities) return sequence.evaluateWithMetadata([...tail], {}, evaluateOptions);
  return sequence.evaluateWithMetadata([...tail], { probabilities: true }, evaluateOptions);
}

/** Samples with a seed for each token: the library takes one for each evaluation, of which each makes one token here. */
async function* seeded(
  sequence: LlamaContextSequence,
  tail: readonly Token[],
  { seed, position, ...options }: SamplesOptions & { readonly seed: number },
): Samples {
  let next: readonly Token[] = tail;
  for (;;) {
    const evaluateOptions = { ...options.evaluateOptions, seed: seedAt(seed, position()) };
    const one = startSamples(sequence, next, { ...options, evaluateOptions, position, seed: undefined });
    const { value: sample, done } = await one.next();
    await one.return();
    if (done) return;
    next = (yield sample) ?? [sample.token];
  }
}

/** Returns the seed of the token at a position, from 0 to 2^32 - 2: neighbours have nothing to do with each other. */
export function seedAt(seed: number, position: number): number {
  let mixed = seed ^ Math.imul(position + 1, 0x9e3779b9);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return ((mixed ^ (mixed >>> 15)) >>> 0) % SEEDS;
}
