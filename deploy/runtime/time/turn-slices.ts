/**
 * The number of pieces of work that are done in one turn of the event loop: what a request, its end or a timer of its costs
 * is some tenths of a millisecond, with what follows at once.
 */
const PER_TURN = 16;
/**
 * The time, in milliseconds, after which the next piece of work is taken for that of another turn. Watching for the end of a
 * turn takes a turn more, which a timer that expires alone need not cost.
 */
const APART_MS = 5;

/**
 * Spreads work that falls due at one time over turns of the event loop: thousands of timers that expire together, say,
 * would hold it until the last of them had run. What is done in a turn is bounded, what is left follows in its order.
 */
export class TurnSlices {
  readonly #perTurn: number;
  readonly #nowMs: () => number;
  readonly #left = new Set<() => void>();
  #done = 0;
  /** When the last piece that was done at once had been done; without end while it is. */
  #lastMs = Number.NEGATIVE_INFINITY;
  #turnEnds = false;

  /**
   * Starts without any work. `perTurn` is the number of pieces of work in one turn, 16 by default; `nowMs` reads a monotonic
   * clock in milliseconds, by default that of the machine.
   */
  constructor(perTurn = PER_TURN, nowMs = () => performance.now()) {
    this.#perTurn = perTurn;
    this.#nowMs = nowMs;
  }

  /**
   * Does `work` now, or in a later turn where enough was done in this one. Returns what takes it back if it is still to
   * do.
   */
  run(work: () => void): () => void {
    if (this.#nowMs() - this.#lastMs < APART_MS) this.#watchTurn();
    else if (!this.#turnEnds) this.#done = 0;
    if (this.#done < this.#perTurn && this.#left.size === 0) {
      this.#done += 1;
      this.#lastMs = Number.POSITIVE_INFINITY;
      try {
        work();
      } finally {
        this.#lastMs = this.#nowMs();
      }
      return () => {};
    }
    const piece = () => work();
    this.#left.add(piece);
    return () => this.#left.delete(piece);
  }

  #watchTurn(): void {
    if (this.#turnEnds) return;
    this.#turnEnds = true;
    setImmediate(() => this.#nextTurn());
  }

  #nextTurn(): void {
    this.#turnEnds = false;
    this.#done = 0;
    for (const piece of this.#left) {
      if (this.#done >= this.#perTurn) break;
      // Before it runs, as it may throw.
      this.#left.delete(piece);
      this.#done += 1;
      this.#watchTurn();
      piece();
    }
  }
}
