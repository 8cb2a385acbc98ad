type Asked = { readonly place: number; readonly begin: () => void };

/**
 * Schedules and counts the engine's steps: finished ones and ones in flight. A stuck accelerator shows in both.
 *
 * Compute steps run in rounds: those requested during a round start together when all of it has ended, ordered by
 * sequence. The engine combines them into one batch, and computes it in one pass only if sequences are consecutive:
 * tokens requested one by one, as their readers arrive, would take several passes.
 *
 * A cache may only be changed between two rounds. A change requested during a round waits for its end; the next round
 * waits for the changes pending then, and for none that comes later.
 */
export class Steps {
  #done = 0;
  #inFlight = 0;
  #changing = 0;
  #changed: Promise<unknown> = Promise.resolve();
  #asked: Asked[] = [];
  #running = 0;
  /** The places of the round that have not requested another step. */
  readonly #silent = new Set<number>();
  #turnIsComing = false;
  #waitsForChanges = false;
  /** Start the changes that wait for the end of the current or due round. */
  #begunAtEnd: (() => void)[] = [];
  #underWay: { readonly begun: Promise<void>; readonly tell: () => void } | undefined;

  /** The number of finished steps, successful or not. */
  get done(): number {
    return this.#done;
  }

  /** The number of running and waiting steps. It is also 0 while no generation requests a step. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Resolves once the engine computes the next round. A generation with a step in it can do other work meanwhile. It
   * does not resolve while no step is requested.
   */
  get underWay(): Promise<void> {
    if (!this.#underWay) {
      let tell = () => {};
      const begun = new Promise<void>((resolve) => {
        tell = resolve;
      });
      this.#underWay = { begun, tell };
    }
    return this.#underWay.begun;
  }

  /** Runs a compute step with the sequence at index `place`, in the next round. Settles as the step does. */
  run<Result>(place: number, step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    return new Promise((resolve, reject) => {
      const begin = () => void this.#compute(step).then(resolve, reject);
      this.#asked.push({ place, begin });
      // A round waits only for the sequences of the last one: another tick of the event loop is long for a fast model.
      if (this.#silent.delete(place) && this.#silent.size === 0) this.#begin();
      else this.#beginSoon();
    });
  }

  async #compute<Result>(step: () => Promise<Result>): Promise<Result> {
    try {
      return await step();
    } finally {
      this.#running -= 1;
      this.#inFlight -= 1;
      this.#done += 1;
      if (this.#running === 0) this.#ended();
      this.#beginSoon();
    }
  }

  /**
   * Runs a step that changes a cache: at once while nothing computes, otherwise after the current round and before all
   * later ones. Settles as the step does.
   */
  async change<Result>(step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    this.#changing += 1;
    const isComputing = this.#running > 0 || this.#waitsForChanges;
    const change = isComputing ? this.#roundEnd().then(step) : step();
    // The chain drops the values: it would otherwise retain those of all earlier changes.
    this.#changed = Promise.allSettled([this.#changed, change]).then(() => {});
    try {
      return await change;
    } finally {
      this.#changing -= 1;
      this.#inFlight -= 1;
      this.#done += 1;
    }
  }

  #roundEnd(): Promise<void> {
    return new Promise((resolve) => this.#begunAtEnd.push(resolve));
  }

  #ended(): void {
    const waiting = this.#begunAtEnd;
    if (waiting.length === 0) return;
    this.#begunAtEnd = [];
    for (const begin of waiting) begin();
  }

  /**
   * Starts a round at the next tick of the event loop: by then every generation that continues at once has requested
   * its step.
   */
  #beginSoon(): void {
    if (this.#turnIsComing || this.#running > 0 || this.#asked.length === 0) return;
    this.#turnIsComing = true;
    setImmediate(() => {
      this.#turnIsComing = false;
      this.#begin();
    });
  }

  #begin(): void {
    if (this.#waitsForChanges || this.#running > 0 || this.#asked.length === 0) return;
    if (this.#changing === 0) {
      this.#beginRound();
      return;
    }
    this.#waitsForChanges = true;
    void this.#changed.then(() =>
      // The request whose cache was changed requests its step first.
      setImmediate(() => {
        this.#waitsForChanges = false;
        this.#beginRound();
      }),
    );
  }

  #beginRound(): void {
    const round = this.#asked.sort((one, other) => one.place - other.place);
    this.#asked = [];
    this.#running = round.length;
    this.#silent.clear();
    for (const { place, begin } of round) {
      this.#silent.add(place);
      begin();
    }
    const told = this.#underWay;
    this.#underWay = undefined;
    // The decoder submits the batch in `process.nextTick` (`runtime/batch-decoder.ts`), before this callback.
    if (told) setImmediate(told.tell);
  }
}
