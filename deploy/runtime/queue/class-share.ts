/** Priority classes: those of Envoy's routing priorities, and one below them. */
export type PriorityClass = "high" | "default" | "low";

/** Most urgent first. */
export const PRIORITY_CLASSES: readonly PriorityClass[] = ["high", "default", "low"];

/**
 * Share of the work of each class while all of them have work; above 0, and only their ratio counts. The unused share
 * of a class is divided among the others in the ratio of their shares.
 */
export type ClassShares = Readonly<Record<PriorityClass, number>>;

/** Default shares. */
export const DEFAULT_CLASS_SHARES: ClassShares = { high: 80, default: 15, low: 5 };

/**
 * Decides which class is served next (self-clocked fair queueing; Golestani, 1994). Each class has a virtual clock that
 * its own work advances, the slower the larger its share; the next class is the one whose clock would be least advanced
 * after its next item. An urgent class is served first, and a less urgent one as soon as its wait pays for its item. An
 * idle class resumes at the clock of the others: it saves no credit.
 */
export class ClassShare {
  readonly #shares: ClassShares;
  readonly #clocks: Record<PriorityClass, number> = { high: 0, default: 0, low: 0 };
  /** Clock of the class that was served last, after its item. */
  #now = 0;

  constructor(shares: ClassShares = DEFAULT_CLASS_SHARES) {
    this.#shares = shares;
  }

  /** Marks that an idle class has work again. */
  wake(name: PriorityClass): void {
    this.#clocks[name] = Math.max(this.#clocks[name], this.#now);
  }

  /**
   * Returns the class to serve next; undefined if none has work. `costOf` returns the cost of the next item of a class;
   * undefined for a class without work.
   */
  next(costOf: (name: PriorityClass) => number | undefined): PriorityClass | undefined {
    let best: PriorityClass | undefined;
    let bestDue = Number.POSITIVE_INFINITY;
    for (const name of PRIORITY_CLASSES) {
      const cost = costOf(name);
      if (cost === undefined) continue;
      const due = this.#clocks[name] + cost / this.#shares[name];
      if (due < bestDue) [best, bestDue] = [name, due];
    }
    return best;
  }

  /**
   * Charges an item of `cost` to a class. The returned function undoes that; charges must be undone in reverse order,
   * but not all of them.
   */
  served(name: PriorityClass, cost: number): () => void {
    const [clock, now] = [this.#clocks[name], this.#now];
    const after = clock + cost / this.#shares[name];
    this.#clocks[name] = after;
    this.#now = after;
    return () => {
      this.#clocks[name] = this.#clocks[name] === after ? clock : this.#clocks[name] - cost / this.#shares[name];
      if (this.#now === after) this.#now = now;
    };
  }
}
