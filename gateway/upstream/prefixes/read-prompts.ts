import { LRUCache } from "lru-cache";
import type { PromptShape } from "../load-balancing/boundary-hashes.ts";
import type { EndpointView } from "../load-balancing/endpoint-view.ts";
import { COMPARED_TAIL } from "./last-prompts.ts";

/** The most prefixes whose last use is remembered, some 200 bytes each. */
const MAX_PLACES = 100_000;
/** The most endpoints whose last use of a prefix is remembered. */
const MAX_USERS = 4;
/**
 * The boundaries at the beginning and at the end of a prompt whose last use is remembered: those in between were at the
 * end of an earlier turn's.
 */
const USED = { head: 2, tail: 8 };

/** A prompt that an endpoint has read, and what became of it there since. */
export type ReadPrompt = {
  /** The address of the endpoint. */
  readonly address: string;
  /** What said then that the endpoint had not begun anew; undefined for one that was not there. */
  readonly life: number | undefined;
  /** The digest of the whole prompt. */
  readonly digest: string;
  /** The tokens of the whole prompt. */
  readonly inputTokens: number;
  /** Monotonic milliseconds at which the endpoint last used it: at the end of its prefill, and at that of its answer. */
  atMs: number;
  /** The tokens of the answer that stay behind the prompt, for the turn that goes on with it; 0 until it has ended. */
  answerTokens: number;
};

/** The last use of a prefix on an endpoint. */
export type Use = {
  /** The prompt that the prefix was a part of. */
  readonly prompt: ReadPrompt;
  /** The tokens of the prefix. */
  readonly tokens: number;
  /** The last use before on another endpoint, which may still have it: of a beginning that many conversations have, say. */
  readonly before: Use | undefined;
};

/** The longest part of a prompt that some endpoint has read before. */
export type DeepestUse = {
  /** The index of the boundary at its end. */
  readonly index: number;
  /** Its last use. */
  readonly use: Use;
};

/** What the memory of prompts asks of the cluster whose endpoints read them. */
export type ReadPromptsParts = {
  /**
   * Returns what changes whenever an endpoint begins with an empty cache, as the time at which its node started;
   * undefined for one that is not there.
   */
  readonly lifeOf: (address: string) => number | undefined;
  /** Returns for how long a prefix is believed to stay on an endpoint that does not tell, in milliseconds. */
  readonly believedMs: (address: string) => number;
  /** Returns the number of tokens by which an endpoint caches prefixes; 0 or 1 where a part of a block may be found, too. */
  readonly blockTokensOf: (address: string) => number;
  /** Returns what an endpoint tells of its gateways and of what it has evicted; undefined if it is gone. */
  readonly viewOf: (address: string) => Pick<EndpointView, "gateways" | "evictedBeforeMs"> | undefined;
};

/** Remembers which endpoints have read which prompts, by digests and bounded, and says what of one is still there. */
export class ReadPrompts {
  readonly #parts: ReadPromptsParts;
  readonly #uses = new LRUCache<string, Use>({ max: MAX_PLACES });

  /** Begins without a memory. */
  constructor(parts: ReadPromptsParts) {
    this.#parts = parts;
  }

  /** Notes that an endpoint has read a prompt. Returns the note, to be kept true. */
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

  /** Returns the longest part of a prompt that some endpoint has read before. */
  deepest({ boundaries }: PromptShape): DeepestUse | undefined {
    for (let index = boundaries.length - 1; index >= 0; index -= 1) {
      if (index >= USED.head && index < boundaries.length - COMPARED_TAIL) index = USED.head - 1;
      const use = this.#uses.get(boundaries[index]?.hash ?? "");
      if (use) return { index, use };
    }
    return undefined;
  }

  /** Returns the tokens that an endpoint which does not tell has, by what it has read up to the boundary at `seenIndex`. */
  believed({ boundaries, lastTurn }: PromptShape, address: string, seenIndex: number, nowMs: number): number {
    for (let index = seenIndex; index >= 0; index -= 1) {
      const boundary = boundaries[index];
      const own = boundary && useOn(this.#uses.get(boundary.hash), address);
      // What is gone may have a beginning that others have used since.
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

  /** Returns whether an endpoint has pushed out what was last used then, by its own word of what it has evicted. */
  isGone({ address, atMs }: ReadPrompt): boolean {
    const { evictedBeforeMs } = this.#parts.viewOf(address) ?? {};
    return evictedBeforeMs !== undefined && atMs < evictedBeforeMs;
  }

  /** Returns whether what was used last then is still believed to be there, on an endpoint that does not tell. */
  isBelieved({ address, atMs }: ReadPrompt, nowMs: number): boolean {
    return nowMs - atMs < this.#parts.believedMs(address);
  }

  /** Returns whether what was used last then is still believed to be where it was. */
  #isThere(prompt: ReadPrompt, nowMs: number): boolean {
    return prompt.life === this.#parts.lifeOf(prompt.address) && this.isBelieved(prompt, nowMs) && !this.isGone(prompt);
  }
}

/** Returns the last use on an endpoint; undefined where none is remembered. */
function useOn(use: Use | undefined, address: string): Use | undefined {
  let on = use;
  while (on && on.prompt.address !== address) on = on.before;
  return on;
}

/** Returns the last uses on other endpoints than the one at `address`, `most` of them. */
function usesElsewhere(use: Use | undefined, address: string, most: number): Use | undefined {
  if (!use || most === 0) return undefined;
  // Mostly a conversation goes on where it was: then nothing is made.
  if (use.prompt.address === address) return use.before;
  const before = usesElsewhere(use.before, address, most - 1);
  return before === use.before ? use : { ...use, before };
}
