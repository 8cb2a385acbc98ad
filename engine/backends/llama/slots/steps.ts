/**
 * Runs what the engine does, and counts it: steps that have come to an end, and steps that run. A wedged accelerator
 * shows in both.
 *
 * The library changes a cache only while it computes nothing, and computes on as long as anybody's next token is asked
 * for: beside two long answers a change would wait until one of them ended. So whoever asks for a token while changes
 * wait waits for these, and no longer: those that come later wait for the token.
 */
export class Steps {
  #done = 0;
  #inFlight = 0;
  #changing = 0;
  #changed: Promise<unknown> = Promise.resolve();

  /** The number of steps that have ended, whether well or not. */
  get done(): number {
    return this.#done;
  }

  /** The number of steps that run now. It is 0 too while nobody who was answered asks for more. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Runs a step that computes, behind the changes that wait now. Settles as the step does. */
  async run<Result>(step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    try {
      if (this.#changing > 0) await this.#changed;
      return await step();
    } finally {
      this.#inFlight -= 1;
      this.#done += 1;
    }
  }

  /** Runs a step that changes what a cache holds, before all steps that begin from now on. Settles as the step does. */
  async change<Result>(step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    this.#changing += 1;
    const change = step();
    // Without a value: it would hold that of all changes before it.
    this.#changed = Promise.allSettled([this.#changed, change]).then(() => {});
    try {
      return await change;
    } finally {
      this.#changing -= 1;
      this.#inFlight -= 1;
      this.#done += 1;
    }
  }
}
