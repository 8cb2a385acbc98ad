import { FairTurns, type TurnItem } from "./fair-turns.ts";

type Waiting = TurnItem & { readonly start: () => void };

/**
 * Runs one piece of work at a time, because several at once would only take more memory and all end late. The keys with
 * work take turns by cost.
 */
export class FairLane {
  readonly #waiting = new FairTurns<Waiting>();
  #busy = false;

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Calls `start` when it is the turn of this work, at once if the lane is free. Returns a function that releases the
   * lane, to be called when the work is done or given up, also while it waits; a second call has no effect.
   */
  enter(work: TurnItem, start: () => void): () => void {
    const item: Waiting = { ...work, start };
    let inside = true;
    this.#waiting.push(item);
    this.#next();
    return () => {
      if (!inside) return;
      inside = false;
      if (this.#waiting.remove(item)) return;
      this.#busy = false;
      this.#next();
    };
  }

  /** Resolves, when it is the turn of this work, to a function that releases the lane. */
  turn(work: TurnItem): Promise<() => void> {
    return new Promise((resolve) => {
      const leave = this.enter(work, () => resolve(() => leave()));
    });
  }

  #next(): void {
    const item = this.#busy ? undefined : this.#waiting.take()?.item;
    if (!item) return;
    this.#busy = true;
    item.start();
  }
}
