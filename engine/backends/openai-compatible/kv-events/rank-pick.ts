import type { RankCache } from "./block-tree.ts";

/** The time for loading a token from below the accelerator's memory, as a share of that for prefilling it. */
export const LOAD_SHARE = 0.1;
/** The further cost of a token that another rank holds, of which there would be two copies. */
const COPY_WEIGHT = 4;
/** The cost of a token in a rank's cache, which a new prompt may evict: new conversations fill all caches alike. */
const HELD_WEIGHT = 0.02;
/** The cost of a running request for a new one, in tokens of prefill: some tenths of a second. */
const REQUEST_TOKENS = 4_000;

export type RankState = {
  readonly cached: RankCache;
  readonly unreadTokens: number;
  readonly requests: number;
};

/** Picks the rank that will have prefilled a prompt first, of several the first. */
export function pickRank(ranks: readonly RankState[], promptTokens: number): number {
  const missing = ranks.map(({ cached }) => promptTokens - cached.tokens + LOAD_SHARE * cached.lowerTokens);
  const least = Math.min(...missing);
  const costs = ranks.map(
    ({ cached, unreadTokens, requests }, rank) =>
      unreadTokens +
      (1 + COPY_WEIGHT) * ((missing[rank] ?? 0) - least) +
      HELD_WEIGHT * cached.heldTokens +
      REQUEST_TOKENS * requests,
  );
  return costs.indexOf(Math.min(...costs));
}
