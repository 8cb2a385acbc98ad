import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The one timer of the next look at those who wait: it is armed once, however many ask for a look. */
export class RecheckTimer {
  readonly #clock: Pick<Clock, "after">;
  readonly #onDue: () => void;
  #cancel: (() => void) | undefined;
  #isDueNow = false;

  /** Begins without a look that is due. `onDue` is called whenever one is. */
  constructor(clock: Pick<Clock, "after">, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Has a look taken in `ms` milliseconds, unless one is due anyway. */
  arm(ms: number): void {
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#cancel = undefined;
      this.#isDueNow = false;
      this.#onDue();
    });
  }

  /** Has the next look taken with the timers of this moment, however far off it was. */
  armNow(): void {
    if (this.#isDueNow) return;
    this.disarm();
    this.#isDueNow = true;
    this.arm(0);
  }

  /** Has no look taken any more. */
  disarm(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isDueNow = false;
  }
}
