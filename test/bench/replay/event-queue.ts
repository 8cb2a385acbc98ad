import type { Clock } from "../../../deploy/runtime/time/clock.ts";

type Entry = { readonly atMs: number; readonly order: number; readonly run: () => void };

/** A virtual clock that runs scheduled callbacks by time, and callbacks of equal time in the order of scheduling. */
export class EventQueue implements Clock {
  readonly #heap: Entry[] = [];
  #planned = 0;
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
    for (let first = this.#heap[0]; first && first.atMs <= endMs; first = this.#heap[0]) {
      this.#takeFirst();
      this.#nowMs = first.atMs;
      first.run();
      await undefined;
    }
    this.#nowMs = endMs;
  }

  #plan(ms: number, run: () => void): void {
    this.#planned += 1;
    this.#heap.push({ atMs: this.#nowMs + ms, order: this.#planned, run });
    let index = this.#heap.length - 1;
    while (index > 0) {
      const parent = (index - 1) >>> 1;
      if (!this.#swapIfLater(parent, index)) return;
      index = parent;
    }
  }

  #takeFirst(): void {
    const last = this.#heap.pop();
    if (!last || this.#heap.length === 0) return;
    this.#heap[0] = last;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const child = this.#isLater(left, left + 1) ? left + 1 : left;
      if (!this.#swapIfLater(index, child)) return;
      index = child;
    }
  }

  #swapIfLater(upper: number, lower: number): boolean {
    if (!this.#isLater(upper, lower)) return false;
    const [a, b] = [this.#heap[upper], this.#heap[lower]];
    if (a && b) [this.#heap[upper], this.#heap[lower]] = [b, a];
    return true;
  }

  #isLater(upper: number, lower: number): boolean {
    const [a, b] = [this.#heap[upper], this.#heap[lower]];
    return a !== undefined && b !== undefined && (a.atMs > b.atMs || (a.atMs === b.atMs && a.order > b.order));
  }
}
