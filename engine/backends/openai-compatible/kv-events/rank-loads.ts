import type { CachedPart } from "./block-tree.ts";
import { pickRank } from "./rank-pick.ts";

/** A prompt on a rank. Both methods are idempotent. */
export type RankedPrompt = {
  readonly rank: number;
  /** The rank has prefilled the prompt. */
  prefilled(): void;
  /** The request is over. */
  end(): void;
};

/** Tracks the load of each data-parallel rank: the node is the engine's only client. */
export class RankLoads {
  readonly #loads: readonly { queuedTokens: number; requests: number }[];

  constructor(ranks: number) {
    this.#loads = Array.from({ length: ranks }, () => ({ queuedTokens: 0, requests: 0 }));
  }

  /** Picks a rank for a prompt, of which each rank can reuse a part, and counts it there. */
  begin(cached: readonly CachedPart[], promptTokens: number): RankedPrompt {
    const states = this.#loads.map((load, rank) => ({ ...load, cached: cached[rank] ?? NOTHING }));
    const rank = pickRank(states, promptTokens);
    const load = this.#loads[rank] ?? { queuedTokens: 0, requests: 0 };
    let left = promptTokens - (states[rank]?.cached.tokens ?? 0);
    let running = 1;
    load.queuedTokens += left;
    load.requests += running;
    const prefilled = () => {
      load.queuedTokens -= left;
      left = 0;
    };
    return {
      rank,
      prefilled,
      end: () => {
        prefilled();
        load.requests -= running;
        running = 0;
      },
    };
  }
}

const NOTHING: CachedPart = { tokens: 0, lowerTokens: 0 };
