import type { EngineClock } from "../../../engine/clock.ts";

type Timer = { readonly atMs: number; readonly run: () => void };

/** Time that stands still until the test moves it. */
export class VirtualEngineClock implements EngineClock {
  #ms = 0;
  readonly #timers = new Set<Timer>();

  nowMs(): number {
    return this.#ms;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#ms + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves time on; what falls due runs in its order, and whoever waits for it goes on before the next. */
  async advance(ms: number): Promise<void> {
    const until = this.#ms + ms;
    await settled();
    for (let timer = this.#next(until); timer; timer = this.#next(until)) {
      this.#timers.delete(timer);
      this.#ms = Math.max(this.#ms, timer.atMs);
      timer.run();
      await settled();
    }
    this.#ms = until;
  }

  #next(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.atMs <= until && (!next || timer.atMs < next.atMs)) next = timer;
    return next;
  }
}

/** Until everything that was ready to go on has gone on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
