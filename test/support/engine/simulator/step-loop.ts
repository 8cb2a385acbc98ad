import { type MonotonicClock, systemClock } from "../../../../deploy/runtime/time/clock.ts";

/** The most overdue steps that are run at once after the process was suspended; older ones are skipped. */
const MAX_CATCH_UP = 32;

type StepLoopOptions = {
  readonly clock: MonotonicClock;
  readonly stepMs: number;
  readonly step: (atMs: number) => boolean;
  readonly flush: () => void;
};

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
    this.#nextAtMs = this.#options.clock.nowMs() + this.#options.stepMs;
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
      this.#nextAtMs += stepMs;
    }
    if (this.#nextAtMs < now) this.#nextAtMs = now;
    if (more) this.#arm();
    flush();
  }
}

/** A clock whose timers do not fire while it is stuck, as with a hung accelerator: SIGUSR2 sets and releases it. */
export class StickingClock implements MonotonicClock {
  #stuck = false;
  readonly #due: (() => void)[] = [];

  constructor() {
    process.on("SIGUSR2", () => {
      this.#stuck = !this.#stuck;
      if (!this.#stuck) for (const run of this.#due.splice(0)) run();
    });
  }

  nowMs(): number {
    return systemClock.nowMs();
  }

  after(ms: number, run: () => void): () => void {
    return systemClock.after(ms, () => {
      if (this.#stuck) this.#due.push(run);
      else run();
    });
  }
}
