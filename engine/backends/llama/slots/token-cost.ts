/**
 * The context length, as a multiple of the model's embedding size, at which a token's attention takes as long as all
 * its other operations. By operation count it is six; llama.cpp runs attention at about half the speed (measured on a
 * CPU: 16 tokens behind 3,500 take as long as 100 at the start, with an embedding size of 256).
 */
const EVEN_CONTEXT = 3;

/** Returns the cost of a token behind `before` others; a token at the start of a context costs 1. */
export type TokenCost = (before: number) => number;

export function tokenCost(embeddingSize: number): TokenCost {
  return (before) => 1 + before / (EVEN_CONTEXT * embeddingSize);
}
