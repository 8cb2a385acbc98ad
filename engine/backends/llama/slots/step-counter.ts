/**
 * Counts what the engine does: steps that have come to an end, and steps that run. A wedged accelerator shows in both.
 */
export class StepCounter {
  #done = 0;
  #inFlight = 0;

  /** The number of steps that have ended, whether well or not. */
  get done(): number {
    return this.#done;
  }

  /** The number of steps that run now. It is 0 too while nobody who was answered asks for more. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Counts a step while it runs, and settles as the step does. */
  async run<Result>(step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    try {
      return await step();
    } finally {
      this.#inFlight -= 1;
      this.#done += 1;
    }
  }
}
