/** Context length, in embedding sizes, at which attention takes as long as all other operations (measured on a CPU). */
const EVEN_CONTEXT = 3;

/** Returns the cost of a token behind `before` others; a token at the start of a context costs 1. */
export type TokenCost = (before: number) => number;

export function tokenCost(embeddingSize: number): TokenCost {
  return (before) => 1 + before / (EVEN_CONTEXT * embeddingSize);
}
