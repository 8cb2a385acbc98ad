import type { Clock } from "../../deploy/runtime/time/clock.ts";

type Timer = { readonly atMs: number; readonly run: () => void };

/** A clock that stands still until the test moves it. */
export class VirtualClock implements Clock {
  #ms = 0;
  readonly #startWallMs: number | undefined;
  readonly #timers = new Set<Timer>();

  /** `startedAt` is the initial wall clock; else it is the machine's, as deadlines of gRPC calls require. */
  constructor(startedAt?: string) {
    this.#startWallMs = startedAt === undefined ? undefined : Date.parse(startedAt);
  }

  nowMs(): number {
    return this.#ms;
  }

  /** Returns the wall clock in milliseconds since the epoch: `startedAt` plus the advanced time, else the machine's. */
  wallMs(): number {
    return this.#startWallMs === undefined ? Date.now() : this.#startWallMs + this.#ms;
  }

  /** Calls `run` when the test has advanced the clock by `ms` milliseconds; the returned function cancels it. */
  after(ms: number, run: () => void): () => void {
    const timer = { atMs: this.#ms + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Advances time by `ms`. Due timers run in order, and code that awaits one continues before the next runs. */
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

  /** Advances time by `ms` within this turn, for code without timers. Throws if a timer is due meanwhile. */
  jump(ms: number): void {
    if (this.#next(this.#ms + ms)) throw new Error("a timer falls due: advance instead");
    this.#ms += ms;
  }

  /** Advances time by `ms` as a blocked event loop does: due timers run later, with the next `advance`. */
  holdUp(ms: number): void {
    this.#ms += ms;
  }

  #next(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.atMs <= until && (!next || timer.atMs < next.atMs)) next = timer;
    return next;
  }
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
