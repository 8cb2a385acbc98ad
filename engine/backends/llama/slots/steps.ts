import { callerLeft, throwIfLeft } from "../../caller-left.ts";
import type { Demand, Slot, Slots } from "./slots.ts";

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

type SlotLeaseOptions = {
  readonly slots: Slots;
  readonly slot: Slot;
  readonly steps: Steps;
  readonly keepMs: number;
  readonly signal: AbortSignal;
};

/** One request's hold on a slot; it ends when closed or when the caller leaves, after the step in flight. */
export class SlotLease {
  readonly slot: Slot;
  readonly #options: SlotLeaseOptions;
  #step: Promise<unknown> | undefined;
  #broken = false;
  #closing: Promise<void> | undefined;

  constructor(options: SlotLeaseOptions) {
    this.slot = options.slot;
    this.#options = options;
    options.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  get open(): boolean {
    return !this.#closing && !this.#options.signal.aborted;
  }

  /** Throws `EngineError` if the caller has left before or meanwhile. */
  run<Result>(step: () => Promise<Result>): Promise<Result> {
    return this.#follow(() => this.#options.steps.run(this.slot.place, step));
  }

  adapt(demand: Demand): Promise<number> {
    return this.#follow(() => this.#options.slots.adapt(this.slot, demand));
  }

  /** Announces the prefixes of the prompt, once it is read. */
  announce(): void {
    if (!this.#closing) this.#options.slots.announce(this.slot);
  }

  keepCopy(): Promise<void> {
    return this.#follow(() => this.#options.steps.change(() => this.slot.keepCopy()));
  }

  async #follow<Result>(begin: () => Promise<Result>): Promise<Result> {
    const { signal } = this.#options;
    throwIfLeft(signal);
    if (this.#closing) throw callerLeft(signal);
    let result: Result;
    try {
      const inFlight = begin();
      this.#step = inFlight;
      result = await inFlight;
    } catch (error) {
      this.#broken = true;
      throw signal.aborted ? callerLeft(signal) : error;
    } finally {
      this.#step = undefined;
    }
    throwIfLeft(signal);
    return result;
  }

  /** Releases the slot after the step in flight. The cache is discarded if a step failed. Never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { slots, slot, keepMs, signal } = this.#options;
    signal.removeEventListener("abort", this.#onAbort);
    if (this.#step) await this.#step.catch(() => {});
    if (this.#broken) await slots.discard(slot);
    else slots.release(slot, keepMs);
  }

  readonly #onAbort = (): void => {
    // A step in flight cannot be stopped.
    void this.close();
  };
}
