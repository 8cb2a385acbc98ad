import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";

/** The most overdue steps that are run at once after the process was suspended; older ones are skipped. */
const MAX_CATCH_UP = 32;

export type StepLoopOptions = {
  readonly clock: MonotonicClock;
  /** Returns the duration of the step with this number, in milliseconds. */
  readonly stepMs: (step: number) => number;
  /** Runs one step, due at `atMs`. Returns whether there is more work. */
  readonly step: (atMs: number) => boolean;
  readonly flush: () => void;
};

/** Drives the simulated engine: runs and counts steps while there is work. */
export class StepLoop {
  readonly #options: StepLoopOptions;
  #cancel: (() => void) | undefined;
  #nextAtMs = 0;
  #count = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  start(): void {
    if (this.#cancel) return;
    this.#nextAtMs = this.#options.clock.nowMs() + this.#options.stepMs(this.#count);
    this.#arm();
  }

  /** Pauses until there is work again. */
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
