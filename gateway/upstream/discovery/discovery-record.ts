import type { DiscoveryStatus } from "./discovery.ts";

/** Counts the results of one discovery's attempts, and reports changes of its fault. */
export class DiscoveryRecord {
  readonly #onFault: (fault: string | undefined) => void;
  #attempts = 0;
  #successes = 0;
  #failures = 0;
  #rejected = 0;
  #fault: string | undefined;

  constructor(onFault: (fault: string | undefined) => void) {
    this.#onFault = onFault;
  }

  get status(): DiscoveryStatus {
    return {
      attempts: this.#attempts,
      successes: this.#successes,
      failures: this.#failures,
      rejected: this.#rejected,
      fault: this.#fault,
    };
  }

  /** Counts an attempt that returned endpoints. */
  succeeded(): void {
    this.#successes += 1;
    this.#end(undefined);
  }

  /** Counts an attempt without a result; `fault` is the reason, for operators. */
  failed(fault: string): void {
    this.#failures += 1;
    this.#end(fault);
  }

  /** Counts an attempt with an unusable result; `fault` is the reason, for operators. */
  rejected(fault: string): void {
    this.#rejected += 1;
    this.#end(fault);
  }

  #end(fault: string | undefined): void {
    this.#attempts += 1;
    if (this.#fault === fault) return;
    this.#fault = fault;
    this.#onFault(fault);
  }
}
