import type { MonotonicClock } from "../../../deploy/runtime/time/clock.ts";

/** Steps made good at once after the process was held up; what is older is lost. */
const MAX_CATCH_UP = 32;

export type StepLoopOptions = {
  readonly clock: MonotonicClock;
  /** How long the step of this number takes, in milliseconds. */
  readonly stepMs: (step: number) => number;
  /** One step, due at `atMs`. Returns whether there is more to do. */
  readonly step: (atMs: number) => boolean;
  /** After one or several steps: hands out what they produced. */
  readonly flush: () => void;
};

/** The heart of the simulated engine: beats while there is work, and counts. */
export class StepLoop {
  readonly #options: StepLoopOptions;
  #cancel: (() => void) | undefined;
  #nextAtMs = 0;
  #count = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  /** Steps so far. */
  get count(): number {
    return this.#count;
  }

  /** There is work. */
  start(): void {
    if (this.#cancel) return;
    this.#nextAtMs = this.#options.clock.nowMs() + this.#options.stepMs(this.#count);
    this.#arm();
  }

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
