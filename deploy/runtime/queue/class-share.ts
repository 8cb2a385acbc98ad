/** The classes of urgency: those of Envoy's routing priorities, and one below them. */
export type PriorityClass = "high" | "default" | "low";

/** All classes of urgency, the most urgent one first. */
export const PRIORITY_CLASSES: readonly PriorityClass[] = ["high", "default", "low"];

/**
 * The share of the work that each class gets while all of them have work; each is above 0, and only their ratio counts.
 * What one class does not use, the others get in the ratio of their own shares.
 */
export type ClassShares = Readonly<Record<PriorityClass, number>>;

/** The shares of the classes where nothing else is configured. */
export const DEFAULT_CLASS_SHARES: ClassShares = { high: 80, default: 15, low: 5 };

/**
 * Decides which class is served next (self-clocked fair queueing; Golestani, 1994). Each class has a clock that its own
 * work moves on, the slower the larger its share; the class is next whose clock would be least far after its next item.
 * So an urgent class goes first, and a less urgent one goes as soon as what it has waited for pays for its item. A
 * class that had nothing to do starts at the clock of the others: it saves up nothing.
 */
export class ClassShare {
  readonly #shares: ClassShares;
  readonly #clocks: Record<PriorityClass, number> = { high: 0, default: 0, low: 0 };
  /** The clock of the class that was served last, after that. */
  #now = 0;

  constructor(shares: ClassShares = DEFAULT_CLASS_SHARES) {
    this.#shares = shares;
  }

  /** Notes that a class which had no work has some again. */
  wake(name: PriorityClass): void {
    this.#clocks[name] = Math.max(this.#clocks[name], this.#now);
  }

  /**
   * Returns the class to serve next; undefined where none has work. `costOf` says what the next item of a class costs;
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
   * Counts an item of `cost` that the class was served. The returned function undoes that; of several, the newest has
   * to be undone first, and those that stay served need not be.
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
