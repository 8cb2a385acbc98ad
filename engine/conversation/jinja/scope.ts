import type { Quote } from "./operators.ts";
import { UNDEFINED, type Value } from "./values.ts";

/** A rendering: the same in all of its scopes. */
export type Rendering = {
  /** Writes a text as Python's `repr` does. */
  readonly quote: Quote;
  /** Returns the text in front of an iteration of a loop with one variable. */
  readonly mark: (item: Value) => string;
};

/** The variables of a template, or of one of its loops, macros and blocks. */
export class Scope {
  readonly rendering: Rendering;
  readonly #around: Scope | undefined;
  readonly #variables = new Map<string, Value>();

  constructor(rendering: Rendering, around?: Scope) {
    this.rendering = rendering;
    this.#around = around;
  }

  inner(): Scope {
    return new Scope(this.rendering, this);
  }

  get(name: string): Value {
    for (let scope: Scope | undefined = this; scope; scope = scope.#around) {
      const value = scope.#variables.get(name);
      if (value) return value;
    }
    return UNDEFINED;
  }

  set(name: string, value: Value): void {
    this.#variables.set(name, value);
  }
}
