import { LRUCache } from "lru-cache";
import type { Boundary, PromptShape } from "../load-balancing/boundary-hashes.ts";

/** The number of boundaries stored from the end of a conversation's last prompt, to locate changes. */
export const COMPARED_TAIL = 62;
/** The number of boundaries stored from its beginning, whose sizes identify a prompt behind another system part. */
const COMPARED_BEGIN = 8;
/** The most conversations with several branches stored, and the most branches beside the newest one. */
const MAX_BRANCHED = 500;
const MAX_OTHERS = 3;

/** The last prompt of a conversation, or of a branch of one. */
export type LastPrompt = {
  /** The last boundaries. */
  readonly tail: readonly Boundary[];
  /** The index of the first boundary of the tail. */
  readonly from: number;
  /** The first boundaries. */
  readonly begin: readonly Boundary[];
};

/** Returns the stored part of a prompt. */
export function lastPrompt({ boundaries }: PromptShape): LastPrompt {
  const from = Math.max(0, boundaries.length - COMPARED_TAIL);
  return { tail: boundaries.slice(from), from, begin: boundaries.slice(0, COMPARED_BEGIN) };
}

/** Returns the index of the last boundary of an earlier prompt that is certainly equal in a later one; -1 for none. */
export function sameIn({ tail, from, begin }: LastPrompt, { boundaries }: PromptShape): number {
  // A digest covers everything before it: an equal one proves all before it equal, an unequal one all behind it
  // unequal.
  const other = begin.findIndex(({ hash }, index) => boundaries[index]?.hash !== hash);
  if (other >= 0) return other - 1;
  const same = tail.findLastIndex(({ hash }, index) => boundaries[from + index]?.hash === hash);
  return same >= 0 ? from + same : begin.length - 1;
}

/** Returns the size in bytes of an earlier prompt up to a boundary that `sameIn` found. */
export function bytesUpTo({ tail, from, begin }: LastPrompt, index: number): number {
  return (tail[index - from] ?? begin[index])?.bytes ?? 0;
}

/**
 * Stores the last prompts of conversations. A client may return to an early position of a conversation, continue from
 * there for long, and then resume the abandoned part: a conversation therefore has branches, of which the last few are
 * stored.
 */
export class LastPrompts {
  readonly #newest: LRUCache<string, LastPrompt>;
  /** The last prompts of a conversation's branches beside the newest one, the newest first. */
  readonly #others = new LRUCache<string, readonly LastPrompt[]>({ max: MAX_BRANCHED });

  constructor(maxConversations: number) {
    this.#newest = new LRUCache({ max: maxConversations });
  }

  /** Returns the prompt of a conversation that has most in common with `shape`, the newest of equals. */
  of(conversation: string, shape: PromptShape): LastPrompt | undefined {
    let best = this.#newest.get(conversation);
    const others = best && this.#others.get(conversation);
    if (!best || !others) return best;
    let bestSame = sameIn(best, shape);
    for (const last of others) {
      const same = sameIn(last, shape);
      if (same > bestSame) [best, bestSame] = [last, same];
    }
    return best;
  }

  /** Stores `prompt`, the stored part of `shape`, as that of the newest branch of a conversation. */
  note(conversation: string, shape: PromptShape, prompt: LastPrompt): void {
    const before = this.of(conversation, shape);
    const newest = this.#newest.get(conversation);
    const others = this.#others.get(conversation);
    this.#newest.set(conversation, prompt);
    if (!before || !newest) return;
    const end = before.tail.at(-1)?.bytes ?? 0;
    // A prompt that keeps less than half of the previous one leaves a branch to which the client may return.
    const isBranch = bytesUpTo(before, sameIn(before, shape)) < end / 2;
    if (!isBranch && before === newest) return;
    const left = [newest, ...(others ?? [])].filter((last) => isBranch || last !== before);
    if (left.length > 0) this.#others.set(conversation, left.slice(0, MAX_OTHERS));
  }

  /** Returns the stored last prompts of all branches of a conversation, the newest first. */
  branches(conversation: string): readonly LastPrompt[] {
    const newest = this.#newest.get(conversation);
    return newest ? [newest, ...(this.#others.get(conversation) ?? [])] : [];
  }
}
