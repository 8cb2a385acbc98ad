import { FairTurns, type TurnItem } from "./fair-turns.ts";

type Waiting = TurnItem & { readonly start: () => void };

/**
 * Lets one piece of work at a time through, where several at once would only take more memory and all end late. The
 * keys that have work take turns by what it costs, as everywhere in this service.
 */
export class FairLane {
  readonly #waiting = new FairTurns<Waiting>();
  #busy = false;

  /** The number of pieces of work that wait for the lane. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Calls `start` when it is the turn of this work, at once where the lane is free. Returns what gives the lane to the
   * next one, to be called when the work is done or given up, also while it still waits; a second call does nothing.
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

  /** Resolves, when it is the turn of this work, to what gives the lane to the next one. */
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
