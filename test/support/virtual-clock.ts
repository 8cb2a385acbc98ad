import type { Clock } from "../../deploy/runtime/time/clock.ts";

type Timer = { readonly atMs: number; readonly run: () => void };

/** A clock that stands still until the test moves it. */
export class VirtualClock implements Clock {
  #ms = 0;
  readonly #startWallMs: number | undefined;
  readonly #timers = new Set<Timer>();

  /**
   * Makes a clock at 0. `startedAt`, an ISO date, is where the wall clock stands at first; it moves with the rest.
   * Without it the wall clock is the machine's, as deadlines of real gRPC calls need it.
   */
  constructor(startedAt?: string) {
    this.#startWallMs = startedAt === undefined ? undefined : Date.parse(startedAt);
  }

  /** Returns how far the test has moved the clock, in milliseconds. */
  nowMs(): number {
    return this.#ms;
  }

  /**
   * Returns the wall clock in milliseconds since the epoch: the start that was given, as far as the clock was moved,
   * else the machine's.
   */
  wallMs(): number {
    return this.#startWallMs === undefined ? Date.now() : this.#startWallMs + this.#ms;
  }

  /** Calls `run` when the test has moved the clock by `ms` milliseconds; the returned function cancels that. */
  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#ms + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves time on by `ms`. What falls due runs in its order, and whoever waits for it goes on before the next runs. */
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

  /** Moves time on by `ms` within this turn, for code that sets no timers. Throws if a timer falls due meanwhile. */
  jump(ms: number): void {
    if (this.#next(this.#ms + ms)) throw new Error("a timer falls due: advance instead");
    this.#ms += ms;
  }

  /**
   * Moves time on by `ms` as a held-up event loop does: what falls due meanwhile runs later, with the next `advance`.
   */
  holdUp(ms: number): void {
    this.#ms += ms;
  }

  #next(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.atMs <= until && (!next || timer.atMs < next.atMs)) next = timer;
    return next;
  }
}

/** Resolves when everything that was ready to go on has gone on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
