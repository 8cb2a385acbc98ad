type Asked = { readonly place: number; readonly begin: () => void };

/**
 * Schedules the engine's steps in rounds: those requested during a round start together. A cache may change between two
 * rounds only: a change waits for the end of the current round, the next round for pending changes.
 */
export class Steps {
  done = 0;
  inFlight = 0;
  #changing = 0;
  #changed: Promise<unknown> = Promise.resolve();
  #asked: Asked[] = [];
  #running = 0;
  readonly #silent = new Set<number>();
  #turnIsComing = false;
  #waitsForChanges = false;
  #begunAtEnd: (() => void)[] = [];
  #underWay: { readonly begun: Promise<void>; readonly begin: () => void } | undefined;

  /** Resolves once the engine computes the next round; not while no step is requested. */
  get underWay(): Promise<void> {
    if (!this.#underWay) {
      let begin = () => {};
      const begun = new Promise<void>((resolve) => {
        begin = resolve;
      });
      this.#underWay = { begun, begin };
    }
    return this.#underWay.begun;
  }

  run<Result>(place: number, step: () => Promise<Result>): Promise<Result> {
    this.inFlight += 1;
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
      this.inFlight -= 1;
      this.done += 1;
      if (this.#running === 0) this.#ended();
      this.#beginSoon();
    }
  }

  async change<Result>(step: () => Promise<Result>): Promise<Result> {
    this.inFlight += 1;
    this.#changing += 1;
    const isComputing = this.#running > 0 || this.#waitsForChanges;
    const change = isComputing ? new Promise<void>((resolve) => this.#begunAtEnd.push(resolve)).then(step) : step();
    // The chain drops the values: it would otherwise retain those of all earlier changes.
    this.#changed = Promise.allSettled([this.#changed, change]).then(() => {});
    try {
      return await change;
    } finally {
      this.#changing -= 1;
      this.inFlight -= 1;
      this.done += 1;
    }
  }

  #ended(): void {
    const waiting = this.#begunAtEnd;
    if (waiting.length === 0) return;
    this.#begunAtEnd = [];
    for (const begin of waiting) begin();
  }

  /** By the next tick of the event loop every generation that continues has requested its step. */
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
    const round = this.#asked;
    this.#asked = [];
    this.#running = round.length;
    this.#silent.clear();
    for (const { place, begin } of round) {
      this.#silent.add(place);
      begin();
    }
    const underWay = this.#underWay;
    this.#underWay = undefined;
    // The decoder submits the batch in `process.nextTick` (`runtime/batch-decoder.ts`), before this callback.
    if (underWay) setImmediate(underWay.begin);
  }
}
