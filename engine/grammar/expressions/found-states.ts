import { UnsupportedPattern } from "./regular-expression.ts";

export class FoundStates {
  /** The places of each state. Iteration includes states added meanwhile. */
  readonly places: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #maxStates: number;

  constructor(maxStates: number) {
    this.#maxStates = maxStates;
  }

  numberOf(places: readonly number[]): number {
    const key = places.join();
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.places.length === this.#maxStates) throw new UnsupportedPattern();
    this.#numbers.set(key, this.places.length);
    return this.places.push(places) - 1;
  }
}
