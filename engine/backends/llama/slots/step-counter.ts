/** What the engine does: steps that have come to an end, and steps that run. A wedged accelerator shows in both. */
export class StepCounter {
  #done = 0;
  #inFlight = 0;

  /** Steps that have ended, whether well or not. */
  get done(): number {
    return this.#done;
  }

  /** Steps that run now; 0 too while everybody who was answered does not ask for more. */
  get inFlight(): number {
    return this.#inFlight;
  }

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
