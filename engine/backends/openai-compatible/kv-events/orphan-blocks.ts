import type { StoredBlocks } from "./kv-event.ts";

/** The most remembered prompts, and the most tokens of all of them. */
const MAX_LINES = { lines: 32, tokens: 2_000_000 };
/** The most events that wait for a prompt with their blocks. */
const MAX_WAITING = 256;

/** A prompt that was sent to the engine: its tokens, and the hashes of its whole blocks. */
export type PromptLine = { readonly tokens: ArrayLike<number>; readonly hashes: readonly number[] };

/** Stored blocks of one rank whose parent block is unknown. */
export type Orphan = { readonly rank: number; readonly event: StoredBlocks };

/** The position of blocks in a prompt: `index` is the number of whole blocks before them. */
export type FoundPlace = { readonly line: PromptLine; readonly index: number };

/**
 * Locates stored blocks whose parent block is unknown, because it was stored before the node started or while its
 * connection was down, by finding their tokens in a recent prompt.
 */
export class OrphanBlocks {
  #lines: PromptLine[] = [];
  #waiting: Orphan[] = [];

  remember(line: PromptLine): void {
    this.#lines.push(line);
    let tokens = this.#lines.reduce((sum, one) => sum + one.tokens.length, 0);
    while (this.#lines.length > MAX_LINES.lines || tokens > MAX_LINES.tokens)
      tokens -= this.#lines.shift()?.tokens.length ?? tokens;
  }

  keep(orphan: Orphan): void {
    this.#waiting.push(orphan);
    if (this.#waiting.length > MAX_WAITING) this.#waiting.shift();
  }

  /** Removes and returns all kept blocks, in order of arrival. */
  take(): readonly Orphan[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  /** Drops the kept blocks of one rank. */
  forget(rank: number): void {
    this.#waiting = this.#waiting.filter((orphan) => orphan.rank !== rank);
  }

  /** Returns the position of blocks in the recent prompts; undefined if there is none, or more than one. */
  placeOf({ tokens, blockTokens }: StoredBlocks): FoundPlace | undefined {
    let found: FoundPlace | undefined;
    for (const line of this.#lines) {
      for (let index = 1; (index + 1) * blockTokens <= line.tokens.length; index += 1) {
        if (!agrees(line.tokens, index * blockTokens, tokens)) continue;
        const isSame = found && found.line.hashes[found.index] === line.hashes[index];
        if (found && !isSame) return undefined;
        found = { line, index };
      }
    }
    return found;
  }
}

/** Returns whether a prompt has these tokens from a position on, up to its end. */
function agrees(prompt: ArrayLike<number>, from: number, tokens: readonly number[]): boolean {
  const count = Math.min(tokens.length, prompt.length - from);
  for (let at = 0; at < count; at += 1) if (prompt[from + at] !== tokens[at]) return false;
  return true;
}
