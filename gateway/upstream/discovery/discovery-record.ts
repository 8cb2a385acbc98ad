import type { DiscoveryStatus } from "./discovery.ts";

/** Counts what became of the attempts of one discovery, and tells when its fault changes. */
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

  /** The record of the attempts so far. */
  get status(): DiscoveryStatus {
    return {
      attempts: this.#attempts,
      successes: this.#successes,
      failures: this.#failures,
      rejected: this.#rejected,
      fault: this.#fault,
    };
  }

  /** Counts an attempt that brought endpoints. */
  succeeded(): void {
    this.#successes += 1;
    this.#end(undefined);
  }

  /** Counts an attempt that learned nothing; `fault` says why, for the operator. */
  failed(fault: string): void {
    this.#failures += 1;
    this.#end(fault);
  }

  /** Counts an attempt that learned what is of no use; `fault` says why, for the operator. */
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
