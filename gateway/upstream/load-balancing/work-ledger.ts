/** The share of one request in an endpoint's prefill work. */
export type Work = {
  /** Sets the tokens of the request that are still to be prefilled, as now known. Numbers below 0 count as 0. */
  remain(tokens: number): void;
  /**
   * Takes the request's share out of the ledger: at the first delta, or when the call is over. A second call does
   * nothing.
   */
  done(): void;
};

/** The share of a new measurement in the learned speed. */
const LEARNING_RATE = 0.2;
/** The tokens below which a measurement says more about the fixed cost of a call than about speed. */
const MIN_MEASURED_TOKENS = 256;

/**
 * Keeps account of what this gateway has sent to each endpoint and is not yet prefilled, in tokens, and of how fast
 * each endpoint prefills. Reports of the nodes are old by the time they are read; without a ledger of its own a gateway
 * would send everything to the endpoint that last looked idle.
 */
export class WorkLedger {
  readonly #outstanding = new Map<string, number>();
  readonly #speeds = new Map<string, number>();
  #sumOfSpeeds = 0;

  /** Returns the tokens that this gateway has sent to an endpoint and that are not yet prefilled. */
  outstanding(address: string): number {
    return this.#outstanding.get(address) ?? 0;
  }

  /** Adds a request with `tokens` to be prefilled to an endpoint's work. Returns its share, which is to be ended. */
  add(address: string, tokens: number): Work {
    let open = true;
    let mine = 0;
    const remain = (left: number) => {
      if (!open) return;
      const next = Math.max(0, left);
      this.#change(address, next - mine);
      mine = next;
    };
    remain(tokens);
    return {
      remain,
      done() {
        remain(0);
        open = false;
      },
    };
  }

  /**
   * Returns how fast an endpoint prefills, in tokens per second, as measured. For an endpoint that was not measured yet
   * it is the mean of the others, so that it is taken for neither slow nor fast; undefined until any endpoint was
   * measured.
   */
  speed(address: string): number | undefined {
    const own = this.#speeds.get(address);
    if (own !== undefined || this.#speeds.size === 0) return own;
    return this.#sumOfSpeeds / this.#speeds.size;
  }

  /** Tells that an endpoint prefilled `tokens`, cached ones not counted, in `prefillMs` milliseconds. */
  measured(address: string, tokens: number, prefillMs: number): void {
    if (tokens < MIN_MEASURED_TOKENS || prefillMs <= 0) return;
    const speed = (tokens * 1_000) / prefillMs;
    const known = this.#speeds.get(address);
    const learned = known === undefined ? speed : known + LEARNING_RATE * (speed - known);
    this.#speeds.set(address, learned);
    this.#sumOfSpeeds += learned - (known ?? 0);
  }

  /** Drops the speed of an endpoint that has left. Its open work counts down to nothing on its own. */
  forget(address: string): void {
    this.#sumOfSpeeds -= this.#speeds.get(address) ?? 0;
    this.#speeds.delete(address);
    // What rounding has left over.
    if (this.#speeds.size === 0) this.#sumOfSpeeds = 0;
  }

  #change(address: string, by: number): void {
    const total = this.outstanding(address) + by;
    if (total > 0) this.#outstanding.set(address, total);
    else this.#outstanding.delete(address);
  }
}
