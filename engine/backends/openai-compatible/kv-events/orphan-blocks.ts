import type { StoredBlocks } from "./kv-event.ts";

/** The most prompts that are remembered, and the most tokens of theirs together. */
const MAX_LINES = { lines: 32, tokens: 2_000_000 };
/** The most events that wait for a prompt in which their blocks stand. */
const MAX_WAITING = 256;

/** A prompt that the engine was sent: its tokens, and the hashes of its whole blocks. */
export type PromptLine = { readonly tokens: ArrayLike<number>; readonly hashes: readonly number[] };

/** Blocks that one rank of the engine has stored behind some of which nothing is known. */
export type Orphan = { readonly rank: number; readonly event: StoredBlocks };

/** The place of blocks in a prompt: `index` is the number of whole blocks in front of them. */
export type FoundPlace = { readonly line: PromptLine; readonly index: number };

/**
 * Finds out where blocks stand that an engine has stored behind blocks of which nothing was heard, as they were stored
 * before the node began or while its connection was gone: in one of the prompts of late, whose tokens are known.
 */
export class OrphanBlocks {
  #lines: PromptLine[] = [];
  #waiting: Orphan[] = [];

  /** Remembers a prompt. */
  remember(line: PromptLine): void {
    this.#lines.push(line);
    let tokens = this.#lines.reduce((sum, one) => sum + one.tokens.length, 0);
    while (this.#lines.length > MAX_LINES.lines || tokens > MAX_LINES.tokens)
      tokens -= this.#lines.shift()?.tokens.length ?? tokens;
  }

  /** Keeps blocks that could not be placed. */
  keep(orphan: Orphan): void {
    this.#waiting.push(orphan);
    if (this.#waiting.length > MAX_WAITING) this.#waiting.shift();
  }

  /** Returns all blocks that were kept, in the order in which they came, and keeps them no longer. */
  take(): readonly Orphan[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  /** Forgets the blocks of one rank that were kept. */
  forget(rank: number): void {
    this.#waiting = this.#waiting.filter((orphan) => orphan.rank !== rank);
  }

  /** Returns the one place where blocks stand in the prompts of late; undefined where there is none, or several. */
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

/** Returns whether a prompt goes on with these tokens from a place on, as far as it reaches. */
function agrees(prompt: ArrayLike<number>, from: number, tokens: readonly number[]): boolean {
  const count = Math.min(tokens.length, prompt.length - from);
  for (let at = 0; at < count; at += 1) if (prompt[from + at] !== tokens[at]) return false;
  return true;
}
