import type { Slot } from "./slot.ts";

/** Smaller pieces cost more than they show. */
const MIN_PIECE_TOKENS = 32;

/**
 * How prompts are cut. Those that are evaluated at the same time share each of the engine's batches evenly, and a piece is
 * one's share: so every batch is a step of each, which shows that the engine gets on however many they are.
 */
export class BatchShares {
  readonly #batchTokens: number;
  readonly #reading = new Set<Slot>();

  constructor(batchTokens: number) {
    this.#batchTokens = batchTokens;
  }

  /** Tokens of the next piece, of whichever prompt. */
  get tokens(): number {
    return Math.max(MIN_PIECE_TOKENS, Math.floor(this.#batchTokens / Math.max(1, this.#reading.size)));
  }

  /** A prompt is being evaluated on the slot, until `end`. */
  begin(slot: Slot): void {
    this.#reading.add(slot);
  }

  /** Does nothing where it has ended already. */
  end(slot: Slot): void {
    this.#reading.delete(slot);
  }
}
