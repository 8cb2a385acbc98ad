import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";

/** The most steps that are made good at once after the process was held up; what is older is lost. */
const MAX_CATCH_UP = 32;

/** What a step loop drives. */
export type StepLoopOptions = {
  /** The clock by which steps fall due. */
  readonly clock: MonotonicClock;
  /** Returns how long the step of this number takes, in milliseconds. */
  readonly stepMs: (step: number) => number;
  /** Makes one step, due at `atMs`. Returns whether there is more to do. */
  readonly step: (atMs: number) => boolean;
  /** Hands out what one or several steps produced. */
  readonly flush: () => void;
};

/** Drives the simulated engine: it makes steps while there is work, and counts them. */
export class StepLoop {
  readonly #options: StepLoopOptions;
  #cancel: (() => void) | undefined;
  #nextAtMs = 0;
  #count = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  /** The number of steps so far. */
  get count(): number {
    return this.#count;
  }

  /** Begins to make steps, as there is work. */
  start(): void {
    if (this.#cancel) return;
    this.#nextAtMs = this.#options.clock.nowMs() + this.#options.stepMs(this.#count);
    this.#arm();
  }

  /** Makes no steps until there is work again. */
  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #arm(): void {
    const { clock } = this.#options;
    this.#cancel = clock.after(Math.max(0, this.#nextAtMs - clock.nowMs()), () => this.#tick());
  }

  #tick(): void {
    const { clock, step, stepMs, flush } = this.#options;
    const now = clock.nowMs();
    this.#cancel = undefined;
    let more = true;
    for (let made = 0; more && this.#nextAtMs <= now && made < MAX_CATCH_UP; made += 1) {
      this.#count += 1;
      more = step(this.#nextAtMs);
      this.#nextAtMs += stepMs(this.#count);
    }
    if (this.#nextAtMs < now) this.#nextAtMs = now;
    if (more) this.#arm();
    flush();
  }
}
