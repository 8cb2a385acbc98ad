import { LRUCache } from "lru-cache";
import type { PromptShape } from "../load-balancing/boundary-hashes.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import { COMPARED_TAIL } from "./last-prompts.ts";

/** The most prefixes whose last use is stored, some 200 bytes each. */
const MAX_PLACES = 100_000;
/** The most endpoints whose last use of a prefix is stored. */
const MAX_USERS = 4;
/**
 * The boundaries at the beginning and the end of a prompt whose last use is stored: those in between were at the end of
 * an earlier turn's.
 */
const USED = { head: 2, tail: 8 };

/** A prompt that an endpoint has prefilled, and its later use there. */
export type ReadPrompt = {
  readonly address: string;
  /** The endpoint's `lifeOf` at that time; undefined for one that was absent. */
  readonly life: number | undefined;
  readonly digest: string;
  readonly inputTokens: number;
  /** Monotonic milliseconds of the endpoint's last use of it: at the end of its prefill, and at that of its answer. */
  atMs: number;
  /** The tokens of the answer that stay behind the prompt, for the turn that continues it; 0 before the answer ends. */
  answerTokens: number;
};

/** The last use of a prefix on an endpoint. */
export type Use = {
  /** The prompt that the prefix was a part of. */
  readonly prompt: ReadPrompt;
  readonly tokens: number;
  /**
   * The previous use on another endpoint, which may still hold it: of a beginning shared by many conversations, for
   * example.
   */
  readonly before: Use | undefined;
};

/** The longest part of a prompt that some endpoint has prefilled before. */
export type DeepestUse = {
  /** The index of the boundary at its end. */
  readonly index: number;
  readonly use: Use;
};

/** The cluster state that the memory of prompts reads. */
export type ReadPromptsParts = {
  /**
   * Returns a value that changes whenever an endpoint starts with an empty cache, such as the start time of its node;
   * undefined for an absent endpoint.
   */
  readonly lifeOf: (address: string) => number | undefined;
  /** Returns the assumed lifetime of a prefix on an endpoint that does not report its cache, in milliseconds. */
  readonly believedMs: (address: string) => number;
  /**
   * Returns the number of tokens by which an endpoint caches prefixes; 0 or 1 where a part of a block can be found,
   * too.
   */
  readonly blockTokensOf: (address: string) => number;
  /** Returns an endpoint's report of its gateways and evictions; undefined if it has left. */
  readonly viewOf: (address: string) => Pick<EndpointView, "gateways" | "evictedBeforeMs"> | undefined;
};

/**
 * Stores which endpoints have prefilled which prompts, as digests and bounded, and estimates how much of one is still
 * cached.
 */
export class ReadPrompts {
  readonly #parts: ReadPromptsParts;
  readonly #uses = new LRUCache<string, Use>({ max: MAX_PLACES });

  constructor(parts: ReadPromptsParts) {
    this.#parts = parts;
  }

  /** Records that an endpoint has prefilled a prompt. Returns the record, which the caller updates. */
  read({ boundaries }: PromptShape, address: string, inputTokens: number, atMs: number): ReadPrompt {
    const { hash: digest = "", bytes = 0 } = boundaries.at(-1) ?? {};
    const prompt = { address, life: this.#parts.lifeOf(address), digest, inputTokens, atMs, answerTokens: 0 };
    const tokensPerByte = bytes > 0 ? inputTokens / bytes : 0;
    for (let index = 0; index < boundaries.length; index += 1) {
      if (index === USED.head) index = Math.max(index, boundaries.length - USED.tail);
      const boundary = boundaries[index];
      if (!boundary) continue;
      const before = usesElsewhere(this.#uses.get(boundary.hash), address, MAX_USERS - 1);
      this.#uses.set(boundary.hash, { prompt, tokens: Math.round(tokensPerByte * boundary.bytes), before });
    }
    return prompt;
  }

  /** Returns the longest part of a prompt that some endpoint has prefilled before. */
  deepest({ boundaries }: PromptShape): DeepestUse | undefined {
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      if (index >= USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head - 1;
      const use = this.#uses.get(boundaries[index]?.hash ?? "");
      if (use) return { index, use };
    }
    return undefined;
  }

  /**
   * Returns the tokens that an endpoint which does not report its cache is believed to hold, by its prefills up to the
   * boundary at `seenIndex`.
   */
  believed({ boundaries, lastTurn }: PromptShape, address: string, seenIndex: number, nowMs: number): number {
    for (let index = seenIndex; index >= 0; index -= 1) {
      const boundary = boundaries[index];
      const own = boundary && useOn(this.#uses.get(boundary.hash), address);
      // An evicted prompt may have a beginning that others have used since.
      if (own && this.#isThere(own.prompt, nowMs)) {
        const goesOn = own.prompt.digest === boundary.hash && index <= (lastTurn ?? -1);
        const tokens = own.tokens + (goesOn ? own.prompt.answerTokens : 0);
        // A part of a block is never found.
        return tokens - (tokens % Math.max(1, this.#parts.blockTokensOf(address)));
      }
      if (index > USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head;
    }
    return 0;
  }

  /** Returns whether an endpoint has evicted the prompt, by its own report of evictions. */
  isGone({ address, atMs }: ReadPrompt): boolean {
    const { evictedBeforeMs } = this.#parts.viewOf(address) ?? {};
    return evictedBeforeMs !== undefined && atMs < evictedBeforeMs;
  }

  /** Returns whether the prompt is still believed cached, on an endpoint that does not report its cache. */
  isBelieved({ address, atMs }: ReadPrompt, nowMs: number): boolean {
    return nowMs - atMs < this.#parts.believedMs(address);
  }

  /** Returns whether the prompt is still believed cached where it was. */
  #isThere(prompt: ReadPrompt, nowMs: number): boolean {
    return prompt.life === this.#parts.lifeOf(prompt.address) && this.isBelieved(prompt, nowMs) && !this.isGone(prompt);
  }
}

/** Returns the last use on an endpoint; undefined where none is stored. */
function useOn(use: Use | undefined, address: string): Use | undefined {
  let on = use;
  while (on && on.prompt.address !== address) on = on.before;
  return on;
}

/** Returns the last uses on endpoints other than the one at `address`, at most `most` of them. */
function usesElsewhere(use: Use | undefined, address: string, most: number): Use | undefined {
  if (!use || most === 0) return undefined;
  // Conversations mostly continue on their endpoint: then nothing is allocated.
  if (use.prompt.address === address) return use.before;
  const before = usesElsewhere(use.before, address, most - 1);
  return before === use.before ? use : { ...use, before };
}
