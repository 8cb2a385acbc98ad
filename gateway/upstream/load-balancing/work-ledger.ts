const LEARNING_RATE = 0.2;
/** The tokens below which a measurement reflects the fixed cost of a call more than the speed. */
const MIN_MEASURED_TOKENS = 256;

/**
 * Counts the tokens that this gateway has sent to each endpoint and that are not yet prefilled, and measures each
 * endpoint's prefill speed. Nodes' reports lag; without its own ledger a gateway would send everything to the endpoint
 * last reported idle.
 */
export class WorkLedger {
  readonly #outstanding = new Map<string, number>();
  readonly #speeds = new Map<string, number>();
  #sumOfSpeeds = 0;

  outstanding(address: string): number {
    return this.#outstanding.get(address) ?? 0;
  }

  /** Adds tokens to an endpoint's outstanding work, or removes them where negative. The caller removes what it adds. */
  change(address: string, by: number): void {
    const total = this.outstanding(address) + by;
    if (total > 0) this.#outstanding.set(address, total);
    else this.#outstanding.delete(address);
  }

  /**
   * Returns an endpoint's measured prefill speed, in tokens per second. An endpoint without a measurement gets the mean
   * of the others, and so counts neither as slow nor as fast; undefined before any measurement.
   */
  speed(address: string): number | undefined {
    const own = this.#speeds.get(address);
    if (own !== undefined || this.#speeds.size === 0) return own;
    return this.#sumOfSpeeds / this.#speeds.size;
  }

  /** Records that an endpoint prefilled `tokens`, cached ones not counted, in `prefillMs` milliseconds. */
  measured(address: string, tokens: number, prefillMs: number): void {
    if (tokens < MIN_MEASURED_TOKENS || prefillMs <= 0) return;
    const speed = (tokens * 1_000) / prefillMs;
    const known = this.#speeds.get(address);
    const learned = known === undefined ? speed : known + LEARNING_RATE * (speed - known);
    this.#speeds.set(address, learned);
    this.#sumOfSpeeds += learned - (known ?? 0);
  }

  /** Removes the speed of an endpoint that has left. Its open work counts down as the calls end. */
  forget(address: string): void {
    this.#sumOfSpeeds -= this.#speeds.get(address) ?? 0;
    this.#speeds.delete(address);
    // The remainder of rounding.
    if (this.#speeds.size === 0) this.#sumOfSpeeds = 0;
  }
}
