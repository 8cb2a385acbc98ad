/** The number of characters that cost as much to go through as one member of an object does. */
const CHARACTERS_PER_WORK = 64;

/** Says that work was asked for that a budget did not have. */
export class WorkSpent extends Error {
  override readonly name = "WorkSpent";
}

/**
 * Bounds the work that something of a caller's may cost, in steps of about a quarter of a microsecond each. Schemas and
 * answers are a caller's, and their products are without bounds: whoever goes through them pays here first, by the size
 * of what is gone through, and stops where nothing is left.
 */
export class WorkBudget {
  readonly #of: WorkBudget | undefined;
  #left: number;
  #spent = 0;

  /**
   * Makes a budget of so many steps. What is paid from it is paid from `of` too; undefined, the default, is nothing.
   */
  constructor(work: number, of?: WorkBudget) {
    this.#left = work;
    this.#of = of;
  }

  /** Returns a budget of so many steps that are paid from this one too. */
  part(work: number): WorkBudget {
    return new WorkBudget(work, this);
  }

  /** The steps that are left; Infinity without bounds. */
  get left(): number {
    return Math.max(0, Math.min(this.#left, this.#of?.left ?? this.#left));
  }

  /** Whether something was asked for that the budget did not have. */
  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** The steps that have been paid for so far, the ones that the budget did not have included. */
  get spent(): number {
    return this.#spent;
  }

  /** Pays for some steps of work; returns false where they were more than was left, and ever after. */
  spend(work: number): boolean {
    if (this.#left < 0) return false;
    this.#left -= work;
    this.#spent += work;
    if (this.#of?.spend(work) === false) this.#left = -1;
    return this.#left >= 0;
  }

  /** Pays for going through so many characters; returns false as `spend` does. */
  spendOnText(characters: number): boolean {
    return this.spend(textWork(characters));
  }

  /** Pays for some steps of work. Throws `WorkSpent` where they were more than was left, and ever after. */
  pay(work: number): void {
    if (!this.spend(work)) throw new WorkSpent("There is no work left to do this.");
  }

  /** Pays for going through so many characters, as `pay` does. */
  payForText(characters: number): void {
    this.pay(textWork(characters));
  }
}

function textWork(characters: number): number {
  return 1 + characters / CHARACTERS_PER_WORK;
}
