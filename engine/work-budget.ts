/** The number of characters that cost as much to process as one member of an object. */
const CHARACTERS_PER_WORK = 64;

export class WorkSpent extends Error {
  override readonly name = "WorkSpent";
}

/**
 * Bounds the work that a caller's input may cause, in steps of about a quarter of a microsecond: code that walks schemas
 * and answers pays here first, and stops when the budget is spent.
 */
export class WorkBudget {
  readonly #of: WorkBudget | undefined;
  #left: number;
  /** The steps paid so far, including those beyond the budget. */
  spent = 0;

  /** Creates a budget of `work` steps. Payments are also charged to `of`, if given. */
  constructor(work: number, of?: WorkBudget) {
    this.#left = work;
    this.#of = of;
  }

  /** Returns a budget of `work` steps whose payments are also charged to this one. */
  part(work: number): WorkBudget {
    return new WorkBudget(work, this);
  }

  /** The remaining steps; Infinity without a bound. */
  get left(): number {
    return Math.max(0, Math.min(this.#left, this.#of?.left ?? this.#left));
  }

  /** Whether a payment exceeded the budget. */
  get isSpent(): boolean {
    return this.#left < 0;
  }

  /** Pays for steps of work. Returns false once a payment has exceeded the budget. */
  spend(work: number): boolean {
    if (this.#left < 0) return false;
    this.#left -= work;
    this.spent += work;
    if (this.#of?.spend(work) === false) this.#left = -1;
    return this.#left >= 0;
  }

  spendOnText(characters: number): boolean {
    return this.spend(textWork(characters));
  }

  /** Pays for steps of work. Throws `WorkSpent` once a payment has exceeded the budget. */
  pay(work: number): void {
    if (!this.spend(work)) throw new WorkSpent("There is no work left to do this.");
  }

  payForText(characters: number): void {
    this.pay(textWork(characters));
  }
}

function textWork(characters: number): number {
  return 1 + characters / CHARACTERS_PER_WORK;
}
