import type { Slot } from "./slot.ts";

/** The smallest piece of a prompt, in tokens: smaller ones cost more than they show. */
const MIN_PIECE_TOKENS = 32;

/**
 * Says how prompts are cut into pieces. Prompts that are evaluated at the same time share each batch of the engine
 * evenly, and a piece is the share of one: so every batch is a step of each prompt, which shows that the engine moves
 * however many they are.
 */
export class BatchShares {
  readonly #batchTokens: number;
  /** The tokens that are left to evaluate, of each prompt. */
  readonly #reading = new Map<Slot, number>();

  /** Makes the shares of batches of `batchTokens` tokens, with no prompt being evaluated. */
  constructor(batchTokens: number) {
    this.#batchTokens = batchTokens;
  }

  /** The size of the next piece of any prompt, in tokens; at least 32. */
  get tokens(): number {
    return Math.max(MIN_PIECE_TOKENS, Math.floor(this.#batchTokens / Math.max(1, this.#reading.size)));
  }

  /** The number of tokens that are left to evaluate, of all prompts that are being evaluated. */
  get unread(): number {
    return [...this.#reading.values()].reduce((sum, tokens) => sum + tokens, 0);
  }

  /** Notes that a prompt is being evaluated on the slot, until `end`, and that `unread` tokens of it are left. */
  reads(slot: Slot, unread: number): void {
    this.#reading.set(slot, unread);
  }

  /** Notes that the prompt on the slot is evaluated. Does nothing where that was noted already. */
  end(slot: Slot): void {
    this.#reading.delete(slot);
  }
}
