import type { Clock } from "../../../deploy/runtime/time/clock.ts";

/** The single timer of the next pass over the waiting requests, armed once however often it is requested. */
export class RecheckTimer {
  readonly #clock: Pick<Clock, "after">;
  readonly #onDue: () => void;
  #cancel: (() => void) | undefined;
  #isDueNow = false;

  /** `onDue` is called when the timer fires. */
  constructor(clock: Pick<Clock, "after">, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Schedules a pass in `ms` milliseconds, unless one is scheduled. */
  arm(ms: number): void {
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#cancel = undefined;
      this.#isDueNow = false;
      this.#onDue();
    });
  }

  /** Schedules the next pass with the timers due now, replacing a later one. */
  armNow(): void {
    if (this.#isDueNow) return;
    this.disarm();
    this.#isDueNow = true;
    this.arm(0);
  }

  /** Cancels the scheduled pass. */
  disarm(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#isDueNow = false;
  }
}
