import { type FairItem, FairQueue } from "./fair-queue.ts";

type Waiting = FairItem & { readonly start: () => void };

/** Runs one piece of work at a time, in fair order: several at once would only take more memory and all end late. */
export class FairLane {
  readonly #waiting = new FairQueue<Waiting>();
  #busy = false;

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Calls `start` when the work is next, at once if the lane is free. The returned function releases the lane, also
   * while the work waits; a second call has no effect.
   */
  enter(work: FairItem, start: () => void): () => void {
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

  #next(): void {
    const item = this.#busy ? undefined : this.#waiting.next();
    if (!item) return;
    this.#busy = true;
    item.start();
  }
}
