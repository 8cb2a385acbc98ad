import { callerLeft, throwIfLeft } from "../../../errors.ts";
import type { Demand, Slot, Slots } from "./slots.ts";
import type { Steps } from "./steps.ts";

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
