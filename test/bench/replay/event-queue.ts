import type { Clock } from "../../../deploy/runtime/time/clock.ts";

type Entry = { readonly atMs: number; readonly run: () => void };

/** A virtual clock that runs scheduled callbacks by time, and callbacks of equal time in the order of scheduling. */
export class EventQueue implements Clock {
  /** The next entry is the last. */
  readonly #entries: Entry[] = [];
  #nowMs = 0;

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs;
  }

  after(ms: number, run: () => void): () => void {
    let cancelled = false;
    this.#plan(ms, () => {
      if (!cancelled) run();
    });
    return () => {
      cancelled = true;
    };
  }

  /** Runs the callbacks that are due, and everything that each resolves, one after the other. */
  async runUntil(endMs: number): Promise<void> {
    for (let next = this.#entries.at(-1); next && next.atMs <= endMs; next = this.#entries.at(-1)) {
      this.#entries.pop();
      this.#nowMs = next.atMs;
      next.run();
      await undefined;
    }
    this.#nowMs = endMs;
  }

  #plan(ms: number, run: () => void): void {
    const atMs = this.#nowMs + ms;
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle]?.atMs ?? 0) > atMs) low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, { atMs, run });
  }
}
