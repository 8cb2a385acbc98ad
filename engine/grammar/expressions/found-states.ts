import { UnsupportedPattern } from "./regular-expression.ts";

/** The states of an automaton that is being made, each known by the places that it stands for, in the order found. */
export class FoundStates {
  /** The places of each state. Whoever walks over them also comes to the states that are found meanwhile. */
  readonly places: (readonly number[])[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #maxStates: number;

  /** Makes room for `maxStates` states at most. */
  constructor(maxStates: number) {
    this.#maxStates = maxStates;
  }

  /** Returns the number of the state that stands for these places. Throws `UnsupportedPattern` where it is one too many. */
  numberOf(places: readonly number[]): number {
    const key = places.join();
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.places.length === this.#maxStates) throw new UnsupportedPattern();
    this.#numbers.set(key, this.places.length);
    return this.places.push(places) - 1;
  }
}
