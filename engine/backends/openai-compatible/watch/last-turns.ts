import { LRUCache } from "lru-cache";
import type { PrefixMark } from "../../../prefixes/prefix-marks.ts";

/** The most prompts that are remembered, some 200 bytes each. */
const MAX_PROMPTS = 20_000;
/** The share of the expected cached tokens below which the engine does not keep a conversation. */
const KEPT_SHARE = 0.5;

/**
 * What the engine found cached of each conversation's last prompt, by the digests of requests: the estimate of what it
 * finds of the next one, where the node does not see the cache.
 */
export class LastTurns {
  // By size, as `max` would reserve the room of all entries at once.
  readonly #held = new LRUCache<string, number>({ maxSize: MAX_PROMPTS, sizeCalculation: () => 1 });

  /** Returns the tokens of a prompt that the engine probably finds; undefined for a new conversation. */
  cachedTokens(salt: string, marks: readonly PrefixMark[]): number | undefined {
    for (const { digest } of marks.toReversed()) {
      const tokens = this.#held.get(`${salt} ${digest}`);
      if (tokens !== undefined) return tokens;
    }
    return undefined;
  }

  /** Records an answered prompt, of which the engine found `cachedTokens`. */
  answered(salt: string, marks: readonly PrefixMark[], tokens: number, cachedTokens: number): void {
    const last = marks.at(-1);
    if (!last) return;
    const isKept = cachedTokens >= KEPT_SHARE * (this.cachedTokens(salt, marks) ?? 0);
    this.#held.set(`${salt} ${last.digest}`, isKept ? tokens : cachedTokens);
  }
}
