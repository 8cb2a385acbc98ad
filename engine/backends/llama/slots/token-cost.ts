/**
 * How many times the size of a model's embedding is the context at which a token's look at all before it takes as long as
 * everything else of it. By counting operations it is six times; llama.cpp does those of the look at about half the speed
 * (measured on a processor: 16 tokens behind 3,500 take as long as 100 at the start, with an embedding of 256).
 */
const EVEN_CONTEXT = 3;

/** Returns what a token costs behind so many others, where one at the start of a context costs 1. */
export type TokenCost = (before: number) => number;

/** Returns what tokens of a model cost whose embedding has this size. */
export function tokenCost(embeddingSize: number): TokenCost {
  return (before) => 1 + before / (EVEN_CONTEXT * embeddingSize);
}
