/** Contradictions, each less one agreement, from which a node announces nothing. */
const MAX_CONTRADICTIONS = 4;
/** Agreements in a row after which it announces again. */
const MIN_AGREEMENTS = 8;
/** The blocks by which announced and found tokens may differ: engines recompute the last block, or whole checkpoints. */
const TOLERATED_BLOCKS = 2;

/** The cached tokens of one prompt, as announced and as found by the engine. */
export type PromptFinding = {
  /** The announced tokens when the prompt was sent. */
  readonly before: number;
  /** The announced tokens when its answer ended: blocks that were in flight have come. */
  readonly after: number;
  readonly found: number;
  /** Whether the engine had no other prompt to read when this one was sent: else it may have evicted some of it since. */
  readonly isAlone: boolean;
  readonly blockTokens: number;
};

/** `more`: the engine found more than is announced. `less`: it found less. */
export type Contradiction = "more" | "less";

/** Decides whether a node's announcements are true, by what the engine finds cached of each prompt. */
export class AnnouncementCheck {
  #contradictions = 0;
  #agreements = 0;
  isTrusted = true;

  take({ before, after, found, isAlone, blockTokens }: PromptFinding): Contradiction | undefined {
    const tolerance = TOLERATED_BLOCKS * blockTokens;
    const isLess = found < before - tolerance;
    const contradiction = found > after + tolerance ? "more" : isLess && isAlone ? "less" : undefined;
    if (contradiction) {
      this.#contradictions = Math.min(MAX_CONTRADICTIONS, this.#contradictions + 1);
      this.#agreements = 0;
      if (this.#contradictions === MAX_CONTRADICTIONS) this.isTrusted = false;
    } else if (!isLess && found > tolerance) {
      this.#contradictions = Math.max(0, this.#contradictions - 1);
      this.#agreements += 1;
      if (this.#agreements >= MIN_AGREEMENTS) this.isTrusted = true;
    }
    return contradiction;
  }
}
