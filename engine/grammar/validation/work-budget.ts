/**
 * The work that one answer may cost to check: about 80 ms of one core, in the looks and characters that a budget
 * counts.
 */
const MAX_WORK = 300_000;
/** The number of characters that cost as much to go through as one member of an object does. */
const CHARACTERS_PER_WORK = 64;

/**
 * Bounds the work that checking the schemas of one answer may cost. A schema and an answer are a caller's, and their
 * product is without bounds: whoever looks at them pays here first, by the size of what is looked at, and stops where
 * nothing is left.
 */
export class WorkBudget {
  #left: number;

  /** Makes a budget of so many steps of about a quarter of a microsecond each; 300,000 by default. */
  constructor(work: number = MAX_WORK) {
    this.#left = work;
  }

  /** Whether something was asked for that the budget did not have. */
  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** Pays for some steps of work; returns false where they were more than was left, and ever after. */
  spend(work: number): boolean {
    if (this.#left >= 0) this.#left -= work;
    return this.#left >= 0;
  }

  /** Pays for going through so many characters; returns false as `spend` does. */
  spendOnText(characters: number): boolean {
    return this.spend(1 + characters / CHARACTERS_PER_WORK);
  }
}
