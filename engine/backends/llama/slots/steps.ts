/** A step that waits for a round. */
type Asked = { readonly place: number; readonly begin: () => void };

/**
 * Runs what the engine does, and counts it: steps that have come to an end, and steps that run. A wedged accelerator
 * shows in both.
 *
 * Steps that compute go in rounds: those that were asked for while a round ran begin together when all of it has ended,
 * in the order of their sequences. The engine makes one batch of them, and computes it in one pass only where sequences follow each other: tokens that were asked for one by one, as their readers
 * came to it, would be computed in several.
 *
 * A cache may be changed only while nothing is computed: between two rounds. What is to be changed while one runs waits for
 * its end; the next one waits for the changes that wait then, and for none that comes later.
 */
export class Steps {
  #done = 0;
  #inFlight = 0;
  #changing = 0;
  #changed: Promise<unknown> = Promise.resolve();
  #asked: Asked[] = [];
  /** The number of steps of the round that have not ended. */
  #running = 0;
  /** The places of the round from which no further step was asked for. */
  readonly #silent = new Set<number>();
  #turnIsComing = false;
  #waitsForChanges = false;
  /** Begin the changes that wait for the end of the round, or of the one that is due. */
  #begunAtEnd: (() => void)[] = [];
  #underWay: { readonly begun: Promise<void>; readonly tell: () => void } | undefined;

  /** The number of steps that have ended, whether well or not. */
  get done(): number {
    return this.#done;
  }

  /** The number of steps that run now or wait for their round. It is 0 too while nobody asks for more. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Resolves once the engine computes the next round that begins. Whoever has asked for a step in it has that time for
   * other work: the engine need not wait for it. It does not resolve while nobody asks for a step.
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

  /** Runs a step that computes with the sequence at `place` of all sequences, in the next round. Settles as the step does. */
  run<Result>(place: number, step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    return new Promise((resolve, reject) => {
      const begin = () => void this.#compute(step).then(resolve, reject);
      this.#asked.push({ place, begin });
      // Those of the last round are all that is waited for: a turn more is much where a token takes little.
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
   * Runs a step that changes what a cache holds: at once while nothing is computed, else behind the round, and before all
   * rounds that begin from then on. Settles as the step does.
   */
  async change<Result>(step: () => Promise<Result>): Promise<Result> {
    this.#inFlight += 1;
    this.#changing += 1;
    const isComputing = this.#running > 0 || this.#waitsForChanges;
    const change = isComputing ? this.#roundEnd().then(step) : step();
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

  #roundEnd(): Promise<void> {
    return new Promise((resolve) => this.#begunAtEnd.push(resolve));
  }

  /** Notes that all steps of the round have ended. */
  #ended(): void {
    const waiting = this.#begunAtEnd;
    if (waiting.length === 0) return;
    this.#begunAtEnd = [];
    for (const begin of waiting) begin();
  }

  /** Begins a round at the next turn of the event loop: by then all have asked who go on at once. */
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
      // Whose cache was changed asks for a step first.
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
    // The batch is sent off behind what the steps do at once (`llama-runtime.ts`), before the next turn.
    if (told) setImmediate(told.tell);
  }
}
