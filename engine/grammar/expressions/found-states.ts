import { UnsupportedPattern } from "./regular-expression.ts";

/** The states of an automaton under construction, identified by their places, in order of discovery. */
export class FoundStates {
  /** The places of each state. Iteration includes states added meanwhile. */
  readonly places: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #maxStates: number;

  constructor(maxStates: number) {
    this.#maxStates = maxStates;
  }

  /** Returns the number of the state with these places. Throws `UnsupportedPattern` beyond the limit. */
  numberOf(places: readonly number[]): number {
    const key = places.join();
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.places.length === this.#maxStates) throw new UnsupportedPattern();
    this.#numbers.set(key, this.places.length);
    return this.places.push(places) - 1;
  }
}
