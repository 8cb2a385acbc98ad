/** Classes of urgency, as Envoy's routing priorities, and one below them. */
export type PriorityClass = "high" | "default" | "low";

/** Most urgent first: of equals the first is served. */
export const PRIORITY_CLASSES: readonly PriorityClass[] = ["high", "default", "low"];

/** Share of the work that each class is sure of while it waits; what one does not use, the others get. */
export type ClassShares = Readonly<Record<PriorityClass, number>>;

export const DEFAULT_CLASS_SHARES: ClassShares = { high: 80, default: 15, low: 5 };

/**
 * Says which class is next. Each class has a clock that its own work moves on, the slower the larger its share; the class
 * that is furthest behind is next. A class that had nothing to do starts at the clock of the others: it saves up nothing.
 */
export class ClassShare {
  readonly #shares: ClassShares;
  readonly #clocks: Record<PriorityClass, number> = { high: 0, default: 0, low: 0 };
  /** Where the class stood that was served last. */
  #now = 0;

  constructor(shares: ClassShares) {
    this.#shares = shares;
  }

  /** The class has work again. */
  wake(name: PriorityClass): void {
    this.#clocks[name] = Math.max(this.#clocks[name], this.#now);
  }

  /** The next of the classes that have work. */
  next(waiting: (name: PriorityClass) => boolean): PriorityClass | undefined {
    let best: PriorityClass | undefined;
    for (const name of PRIORITY_CLASSES) {
      if (waiting(name) && (best === undefined || this.#clocks[name] < this.#clocks[best])) best = name;
    }
    return best;
  }

  served(name: PriorityClass, cost: number): void {
    this.#now = this.#clocks[name];
    this.#clocks[name] += cost / this.#shares[name];
  }

  /** It was not served after all. */
  takeBack(name: PriorityClass, cost: number): void {
    this.#clocks[name] -= cost / this.#shares[name];
  }
}
